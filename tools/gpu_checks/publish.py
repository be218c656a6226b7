"""Publishes a run: golden data and results in tests/golden, tables in docs/design/gpu.md."""

import pathlib
import shutil

import golden_cases

from gpu_checks import results
from gpu_checks.families import FAMILIES
from gpu_checks.summary import to_markdown

REPOSITORY = pathlib.Path(__file__).resolve().parent.parent.parent
BEGIN = "<!-- Results: written by tools/gpu_check.py publish -->"
END = "<!-- End of results -->"


def publish(folder: pathlib.Path, repository: pathlib.Path = REPOSITORY) -> list[pathlib.Path]:
    """Publishes a run and returns the files that it wrote.

    Args:
      folder: output of the run.
      repository: root of the repository.

    Raises:
      ValueError: if the run was not on a GPU, its files are damaged, or docs/design/gpu.md does not contain each marker
        once.
    """
    report = results.read(folder / results.RESULTS)
    report.families = {name: report.families[name] for name in FAMILIES if name in report.families}
    library = report.environment.get("library")
    if library != "cuDNN":
        raise ValueError(f"{folder} has results of {library}, expected cuDNN: only runs on a GPU can be published")
    page = repository / "docs/design/gpu.md"
    text = _with_block(page, to_markdown(report))
    golden = repository / "tests/golden"
    written = [golden / results.RESULTS, page]
    if (folder / results.ARCHIVE).exists():
        _check_archive(folder / results.ARCHIVE)
        shutil.copyfile(folder / results.ARCHIVE, golden / results.ARCHIVE)
        written.append(golden / results.ARCHIVE)
    results.write_condensed(report, golden / results.RESULTS)
    page.write_text(text)
    return written


def _check_archive(archive: pathlib.Path) -> None:
    """Checks that all recordings in an archive can be read and are from cuDNN."""
    for name in golden_cases.names(archive):
        library = golden_cases.load(archive, name).recorded_with["library"]
        if library != "cuDNN":
            raise ValueError(f"{archive} has a recording of {library}, expected cuDNN")


def _with_block(page: pathlib.Path, block: str) -> str:
    """Returns the text of a page with a block inserted between its markers."""
    text = page.read_text()
    if not (text.count(BEGIN) == text.count(END) == 1):
        raise ValueError(f"{page} must contain {BEGIN!r} and {END!r} exactly once")
    before, rest = text.split(BEGIN)
    _, after = rest.split(END)
    return f"{before}{BEGIN}\n\n{block}\n{END}{after}"
