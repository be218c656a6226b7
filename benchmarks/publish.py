"""Puts the results of a run into the documentation: the tables and the picture of docs/performance.md."""

import argparse
import json
import pathlib

import picture
from report import to_markdown
from run import Run, from_json

DOCS = pathlib.Path(__file__).parent.parent / "docs"
BEGIN = "<!-- Results: written by benchmarks/publish.py -->"
END = "<!-- End of results -->"


def publish(run: Run, docs: pathlib.Path) -> None:
    """Replaces what is between the marks in performance.md, and performance.png.

    Raises:
      ValueError: if performance.md has not each mark once.
    """
    page = docs / "performance.md"
    text = page.read_text()
    if not (text.count(BEGIN) == text.count(END) == 1):
        raise ValueError(f"{page} must hold {BEGIN!r} and {END!r} once each")
    before, rest = text.split(BEGIN)
    _, after = rest.split(END)
    block = f"{BEGIN}\n\n![How fast each library is](performance.png)\n\n{to_markdown(run)}\n{END}"
    page.write_text(before + block + after)
    picture.draw(run, docs / "performance.png")


def main() -> None:
    """Reads the folder that bench.py wrote to, and publishes it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=pathlib.Path, help="what --output of bench.py was, such as build/bench")
    results = parser.parse_args().folder / "results.json"
    publish(from_json(json.loads(results.read_text())), DOCS)
    print(f"{DOCS / 'performance.md'} and performance.png show {results}")


if __name__ == "__main__":
    main()
