"""Puts the results of a run into the documentation: the tables and the picture of the pages that are about them."""

import argparse
import json
import pathlib

import picture
from report import first_order_to_markdown, second_order_to_markdown, sharing_to_markdown
from run import Run, from_json, join
from sections import CLIENTS, SECOND_ORDER

DOCS = pathlib.Path(__file__).parent.parent / "docs"
BEGIN = "<!-- Results: written by benchmarks/publish.py -->"
END = "<!-- End of results -->"


def publish(run: Run, docs: pathlib.Path) -> list[pathlib.Path]:
    """Replaces what is between the marks in the pages that the run has results for, which it returns.

    Networks and cells are in performance.md, with performance.png; gradients of penalties in second_order.md; sharing
    a machine in sharing.md.

    Raises:
      ValueError: if such a page has not each mark once.
    """
    pages = []
    if run.cases():
        picture.draw(run, docs / "performance.png")
        text = f"![How fast each library is](performance.png)\n\n{first_order_to_markdown(run)}"
        pages.append(_replace(docs / "performance.md", text))
    if run.cases(SECOND_ORDER):
        pages.append(_replace(docs / "second_order.md", second_order_to_markdown(run)))
    if run.cases(CLIENTS[1]):
        pages.append(_replace(docs / "sharing.md", sharing_to_markdown(run)))
    return pages


def _replace(page: pathlib.Path, block: str) -> pathlib.Path:
    text = page.read_text()
    if not (text.count(BEGIN) == text.count(END) == 1):
        raise ValueError(f"{page} must hold {BEGIN!r} and {END!r} once each")
    before, rest = text.split(BEGIN)
    _, after = rest.split(END)
    page.write_text(f"{before}{BEGIN}\n\n{block}\n{END}{after}")
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
