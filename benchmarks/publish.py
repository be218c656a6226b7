"""Writes the results of a run into docs/performance.md and README.md, with their charts.

In docs/performance.md, the tables of each part that the run measured replace the text between the marks of that part.
The headline of Keras models goes into README.md. The charts are docs/images/models.png and docs/images/performance.png.
"""

import argparse
import json
import pathlib

import picture
from report import PARTS, headline, part_to_markdown
from run import Run, from_json, join
from sections import MODELS

DOCS = pathlib.Path(__file__).parent.parent / "docs"
KERAS_MODELS = "Keras models"  # the part that README.md summarizes


def marks(part: str) -> tuple[str, str]:
    """Returns the lines before and after the results of a part."""
    return f"<!-- Results of {part}: written by benchmarks/publish.py -->", f"<!-- End of results of {part} -->"


def publish(run: Run, docs: pathlib.Path) -> list[pathlib.Path]:
    """Writes the parts that a run measured into `docs`/performance.md and the README.md next to `docs`.

    Returns:
      The changed pages.

    Raises:
      ValueError: if a page does not contain each mark exactly once.
    """
    images = docs / "images"
    images.mkdir(exist_ok=True)
    picture.draw(run, images / "performance.png")
    picture.draw_models(run, images / "models.png")
    pages = []
    for part in PARTS:
        if block := part_to_markdown(run, part):
            pages.append(_replace(docs / "performance.md", part, block))
    if run.cases(MODELS):
        chart = f"![Speedup of accelerated Keras models over other libraries]({docs.name}/images/models.png)\n"
        pages.append(_replace(docs.parent / "README.md", KERAS_MODELS, f"{headline(run)}\n{chart}"))
    return list(dict.fromkeys(pages))


def _replace(page: pathlib.Path, part: str, block: str) -> pathlib.Path:
    """Replaces the text between the marks of a part."""
    text = page.read_text()
    begin, end = marks(part)
    if not (text.count(begin) == text.count(end) == 1):
        raise ValueError(f"{page} must contain {begin!r} and {end!r} exactly once each")
    before, rest = text.split(begin)
    _, after = rest.split(end)
    page.write_text(f"{before}{begin}\n\n{block}\n{end}{after}")
    return page


def main() -> None:
    """Reads the output folders of bench.py and publishes their results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "folders",
        type=pathlib.Path,
        nargs="+",
        metavar="folder",
        help="an output folder of bench.py, such as build/bench; several if sections were measured separately",
    )
    results = [folder / "results.json" for folder in parser.parse_args().folders]
    for page in publish(join([from_json(json.loads(each.read_text())) for each in results]), DOCS):
        print(f"{page} updated from {', '.join(map(str, results))}")


if __name__ == "__main__":
    main()
