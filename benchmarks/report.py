"""Formats a run: lines while it runs, Markdown tables afterwards; also writes them into the pages.

In docs/performance.md, or the page in `PAGES`, the tables of each part that a run measured replace the text between the
marks of that part. Then the summary, README.md and the chart are made anew from the tables in the pages.
"""

import argparse
import pathlib
from collections.abc import Sequence

import summary
from cases import COPIES, MEMORY
from measure import DISTURBANCE, Measurement
from results import Run, label, read
from sections import GRAPHS, OURS
from tables import MEBI, PARTS, THREADS, efficiencies, ratio, short

DOCS = pathlib.Path(__file__).parent.parent / "docs"
PAGES = {GRAPHS: "guides/will_it_help.md"}  # of the parts that are not in performance.md
MEASURED_ELSEWHERE = (THREADS,)  # on machines with more CPUs, and less often


# ---------------------------------------------------------------- lines

_LINE = "{:<68}  {:<18}  {:<14}  {:>9}  {:>8}  {:>7}  {:>7}  {:>14}"
LINE_HEAD = _LINE.format("case", "task", "peer", "ms or MiB", "GFLOP/s", "speedup", "error", "p50; p99, ms")


def print_lines(measurements: Sequence[Measurement]) -> None:
    """Prints the measurements of a case."""
    ours = {each.task: each.median for each in measurements if each.peer == OURS}
    for each in measurements:
        of_ours = "-" if each.task not in ours or each.peer == OURS else ratio(each.median / ours[each.task])
        waits = "; ".join(short(1e3 * each.wait(percent)) for percent in (50, 99)) if each.waits else "-"
        figure = each.median / MEBI if each.task in (MEMORY, *COPIES.values()) else 1e3 * each.median
        cells = [each.case.title, each.task, label(each.peer), short(figure), short(each.gflops), of_ours]
        print(_LINE.format(*cells, f"{each.error:.0e}", waits), flush=True)


# ---------------------------------------------------------------- parts of pages


def _tables(run: Run, part: str) -> str:
    """Returns the tables of a part; empty if the run has no measurements for it."""
    tables = [table.markdown(run) for table in PARTS[part]]
    if part == THREADS and any(tables):
        tables.append(efficiencies(run))
    return _join(*tables)


def to_markdown(run: Run) -> str:
    """Returns the conditions and all tables of a run."""
    return _join(_conditions(run, *PARTS), *(_tables(run, part) for part in PARTS))


def part_to_markdown(run: Run, part: str) -> str:
    """Returns the conditions and the tables of one of `PARTS`; empty if the run has no measurements for it."""
    tables = _tables(run, part)
    return tables and _join(_conditions(run, part), tables)


def _join(*parts: str) -> str:
    return "\n".join(filter(None, parts))


def _conditions(run: Run, *parts: str) -> str:
    """Returns the conditions under which a run measured some parts."""
    versions = {name: value for of_peer in reversed(list(run.versions.values())) for name, value in of_peer.items()}
    sections = {section for part in parts for table in PARTS[part] for section in table.sections}
    counts = [len(each.samples) for each in run.measurements if each.section in sections]
    instruction_set = versions.get("instruction set", "unknown instruction set").partition(" (")[0]
    limits = [f"{limit:.0f} in {dtype}" for dtype in ("float32", "bfloat16") if (limit := run.limit(dtype)) is not None]
    names = ("TensorFlow", "Keras", "PyTorch", "ONNX Runtime")
    known = [f"{name} {versions[name].split(',')[0]}" for name in names if name in versions]
    lines = [
        f"tf_rnn_ops {versions.get('tf_rnn_ops', 'unknown')} ({run.commit}), {run.date}, "
        f"{versions.get('CPU', 'unknown CPU')}, {instruction_set}, {run.threads} threads. {', '.join(known)}.",
        f"Medians of {max(counts, default=0)} {'processes' if parts == ('memory',) else 'rounds'}. Other processes "
        f"used more than {DISTURBANCE:.0%} of the CPU time in {run.disturbed():.0%} of the samples.",
    ]
    if limits and "ops" in parts:
        lines.append(f"Fastest matrix product of any library, GFLOP/s: {', '.join(limits)}.")
    lines += [f"{skipped(name, packages)}." for name, packages in run.left_out.items()]
    lines += [f"{label(each.peer)} failed in {each.case}." for each in run.failures if each.section in sections]
    return "\n".join(lines) + "\n"


def skipped(name: str, packages: Sequence[str]) -> str:
    """Returns a message that a peer is skipped because packages are missing."""
    return f"{label(name)} is skipped; not installed: {', '.join(packages)}"


# ---------------------------------------------------------------- pages


def marks(part: str) -> tuple[str, str]:
    """Returns the lines before and after the results of a part."""
    return f"<!-- Results of {part}: written by benchmarks/report.py -->", f"<!-- End of results of {part} -->"


def page_of(part: str) -> str:
    """Returns the page with the results of a part."""
    return PAGES.get(part, "performance.md")


def block_of(page: pathlib.Path, part: str) -> str:
    """Returns the text between the marks of a part.

    Raises:
      ValueError: if the page does not contain each mark exactly once.
    """
    text, (begin, end) = page.read_text(), marks(part)
    if not (text.count(begin) == text.count(end) == 1):
        raise ValueError(f"{page} must contain {begin!r} and {end!r} exactly once each")
    return text.partition(begin)[2].partition(end)[0]


def publish(run: Run, docs: pathlib.Path) -> list[pathlib.Path]:
    """Writes the parts that a run measured into the pages in `docs`, and the summary of all pages.

    Returns:
      The changed pages.

    Raises:
      ValueError: if a page does not contain each mark exactly once.
    """
    blocks = {part: block for part in PARTS if (block := part_to_markdown(run, part))}
    pages = [_replace(docs / page_of(part), part, block) for part, block in blocks.items()]
    return list(dict.fromkeys([*pages, *summarize(docs)]))


def summarize(docs: pathlib.Path) -> list[pathlib.Path]:
    """Makes the summary in docs/performance.md, that in the README.md next to it, and the chart; returns both pages."""
    found = {part: block_of(docs / page_of(part), part) for part in PARTS}
    (docs / "images").mkdir(exist_ok=True)
    summary.draw(found, docs / "images" / "speed.png")
    texts = {docs / "performance.md": summary.page(found), docs.parent / "README.md": summary.front(found)}
    return [_replace(page, summary.PART, text) for page, text in texts.items()]


def _replace(page: pathlib.Path, part: str, block: str) -> pathlib.Path:
    """Replaces the text between the marks of a part."""
    begin, _ = marks(part)
    old = block_of(page, part)
    page.write_text(page.read_text().replace(f"{begin}{old}", f"{begin}\n\n{block}\n"))
    return page


def main() -> None:
    """Publishes the results of earlier runs, or only makes the summary and the chart anew."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "folders",
        type=pathlib.Path,
        nargs="*",
        metavar="folder",
        help="an output folder, such as build/bench; several if parts were measured separately; none to make only the "
        "summary and the chart",
    )
    folders = parser.parse_args().folders
    pages = [page for folder in folders for page in publish(read(folder / "results.json"), DOCS)]
    for page in dict.fromkeys(pages or summarize(DOCS)):
        print(f"updated {page}")


if __name__ == "__main__":
    main()
