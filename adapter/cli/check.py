"""`depthgauge check`."""

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated

import typer

from adapter.cli.options import ConfigOption, Output, OutputOption


def check(
    config: ConfigOption,
    live: Annotated[bool, typer.Option("--live", help="Ask the backend of every metric once.")] = False,  # noqa: FBT002
    namespace: Annotated[
        str | None,
        typer.Option(
            "--namespace",
            "-n",
            metavar="NAME",
            help="With --live: the namespace for queries with $namespace, which are left out otherwise.",
            show_default=False,
        ),
    ] = None,
    strict: Annotated[bool, typer.Option("--strict", help="Let warnings fail the check too.")] = False,  # noqa: FBT002
    output: OutputOption = Output.TEXT,
) -> None:
    """Check a configuration, and its queries.

    Problems keep a configuration from being used; findings are queries that cannot be answered, or that would mislead
    the HPA. Every line of the report names the file and line, the metric, what is wrong and what to do. --live adds
    what the backend says now: the series and how many are allowed, the range of the values, the labels, the duration;
    or the Reason why there is none; and how close each guard is to tripping.

    Examples:
      depthgauge check --config depthgauge.yaml
      depthgauge check --config /etc/depthgauge --live --namespace shop
      depthgauge check --config depthgauge.yaml --strict -o json

    Exit codes:
      0    nothing is wrong; there may be warnings
      1    problems, or findings of level error (with --strict: any finding)
      2    wrong usage
      130  interrupted
    """
    from adapter.cli.check_report import CheckReport
    from adapter.cli.survey import survey_rules
    from adapter.cli.terminal import print_text
    from adapter.config.load import load_configuration
    from adapter.config.problems import ConfigurationError
    from adapter.domain.lint import lint_rules

    try:
        loaded = load_configuration(config)
    except ConfigurationError as error:
        report = CheckReport(problems=error.problems)
    else:
        rules = tuple(loaded.configuration.rules.values())
        sightings = None
        if live:
            with _show_progress(len(rules)) as on_seen:
                sightings = survey_rules(loaded.configuration, namespace=namespace, on_seen=on_seen)
        report = CheckReport(notes=loaded.warnings, rules=rules, lint=lint_rules(rules), sightings=sightings)
    if output is Output.JSON:
        typer.echo(json.dumps(report.build_document(is_strict=strict), indent=2, ensure_ascii=False))
    else:
        print_text(report.format_text())
    if not report.is_good(is_strict=strict):
        raise typer.Exit(1)


@contextmanager
def _show_progress(total: int) -> Iterator[Callable[[], None]]:
    """Give a function that counts one metric; the count is shown on stderr if a person looks at it."""
    if not sys.stderr.isatty():
        yield lambda: None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("asking", total=total)
        yield lambda: progress.advance(task)
