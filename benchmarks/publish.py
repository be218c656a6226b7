"""Puts the results of a run into the documentation: the tables and the picture of the pages that are about them."""

import argparse
import json
import pathlib

import picture
from report import (
    first_order_to_markdown,
    headline,
    models_to_markdown,
    second_order_to_markdown,
    sharing_to_markdown,
)
from run import Run, from_json, join
from sections import CLIENTS, MODELS, SECOND_ORDER

DOCS = pathlib.Path(__file__).parent.parent / "docs"
BEGIN = "<!-- Results: written by benchmarks/publish.py -->"
END = "<!-- End of results -->"
MODELS_BEGIN = "<!-- Results of Keras models: written by benchmarks/publish.py -->"
MODELS_END = "<!-- End of results of Keras models -->"


def publish(run: Run, docs: pathlib.Path) -> list[pathlib.Path]:
    """Replaces what is between the marks in the pages that the run has results for, which it returns.

    Keras models are in performance.md, between marks of their own, and with models.png in the README.md beside the
    folder; networks and cells in performance.md, with performance.png; gradients of penalties in second_order.md;
    sharing a machine in sharing.md.

    Raises:
      ValueError: if such a page has not each mark once.
    """
    pages = []
    if run.cases(MODELS):
        picture.draw_models(run, docs / "models.png")
        marks = MODELS_BEGIN, MODELS_END
        pages.append(_replace(docs / "performance.md", models_to_markdown(run), *marks))
        chart = f"![How many times as fast accelerated Keras models are]({docs.name}/models.png)\n"
        pages.append(_replace(docs.parent / "README.md", f"{headline(run)}\n{chart}", *marks))
    if run.cases():
        picture.draw(run, docs / "performance.png")
        text = f"![How fast each library is](performance.png)\n\n{first_order_to_markdown(run)}"
        pages.append(_replace(docs / "performance.md", text))
    if run.cases(SECOND_ORDER):
        pages.append(_replace(docs / "second_order.md", second_order_to_markdown(run)))
    if run.cases(CLIENTS[1]):
        pages.append(_replace(docs / "sharing.md", sharing_to_markdown(run)))
    return pages


def _replace(page: pathlib.Path, block: str, begin: str = BEGIN, end: str = END) -> pathlib.Path:
    text = page.read_text()
    if not (text.count(begin) == text.count(end) == 1):
        raise ValueError(f"{page} must hold {begin!r} and {end!r} once each")
    before, rest = text.split(begin)
    _, after = rest.split(end)
    page.write_text(f"{before}{begin}\n\n{block}\n{end}{after}")
    return page


def main() -> None:
    """Reads the folders that bench.py wrote to, and publishes them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "folders",
        type=pathlib.Path,
        nargs="+",
        metavar="folder",
        help="what --output of bench.py was, such as build/bench; several, if parts were measured one after another",
    )
    results = [folder / "results.json" for folder in parser.parse_args().folders]
    for page in publish(join([from_json(json.loads(each.read_text())) for each in results]), DOCS):
        print(f"{page} shows {', '.join(map(str, results))}")


if __name__ == "__main__":
    main()
