"""`depthgauge explain`."""

import json

import typer

from adapter.cli.options import ConfigOption, MetricArgument, NamespaceOption, Output, OutputOption, SelectorOption


def explain(
    metric: MetricArgument,
    config: ConfigOption,
    namespace: NamespaceOption = "default",
    selector: SelectorOption = "",
    output: OutputOption = Output.TEXT,
) -> None:
    """Show how a question is answered, step by step.

    It takes the same walk as a request of the HPA: the rule and where it stands, the tick, the PromQL sent, the raw
    answer, what each check saw, what the selector picked; at the end the items, or the error and its Reason.

    Examples:
      depthgauge explain queue_length -n shop -l queue=orders -c depthgauge.yaml
      depthgauge explain queue_length --config depthgauge.yaml -o json

    Exit codes:
      0    answered with a number
      1    answered with an error, or the configuration has problems
      2    wrong usage
      130  interrupted
    """
    from adapter.cli.asking import ask, load_or_exit
    from adapter.cli.documents import format_failure, format_items, is_value_list
    from adapter.cli.terminal import print_text
    from adapter.serving.provider import Question
    from adapter.serving.trace import Trace

    trace = Trace()
    document = ask(load_or_exit(config), Question(namespace, metric, selector), trace)
    is_answered = is_value_list(document)
    if output is Output.JSON:
        steps = [{"name": step.name, "detail": step.detail} for step in trace.steps]
        explanation = {"metric": metric, "namespace": namespace, "selector": selector, "steps": steps}
        typer.echo(json.dumps({**explanation, "answer": document}, indent=2, ensure_ascii=False))
    else:
        asked = f'{metric} in namespace {namespace}, selector "{selector}"'
        last = ("items", format_items(document)) if is_answered else ("error", format_failure(document))
        walk = (("question", asked), *((step.name, step.detail) for step in trace.steps), last)
        print_text("\n".join(_format_step(name, detail) for name, detail in walk))
    if not is_answered:
        raise typer.Exit(1)


def _format_step(name: str, detail: str) -> str:
    first, *rest = detail.split("\n")
    return "\n".join([f"{name:<12}{first}", *(f"{'':<12}{line}" for line in rest)])
