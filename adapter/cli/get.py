"""`depthgauge get`."""

import json
from collections.abc import Mapping
from typing import Annotated, Any

import typer

from adapter.cli.options import MetricArgument, NamespaceOption, OptionalConfigOption, SelectorOption, ValueOutput


def get(  # noqa: PLR0913, PLR0917 - one parameter for each option of the command line
    ctx: typer.Context,
    metric: MetricArgument,
    namespace: NamespaceOption = "default",
    selector: SelectorOption = "",
    config: OptionalConfigOption = None,
    server: Annotated[
        str | None,
        typer.Option(metavar="URL", help="Ask a running adapter instead of the backend.", show_default=False),
    ] = None,
    output: Annotated[
        ValueOutput,
        typer.Option("--output", "-o", help="text: a table; json: what the API answers; value: the values alone."),
    ] = ValueOutput.TEXT,
) -> None:
    """Print a metric's items as an HPA gets them.

    Or the error that it gets. With --config the question goes to the configuration's own backend, from here. With
    --server it goes to an adapter that runs somewhere.

    Examples:
      depthgauge get queue_length -n shop -l queue=orders -c depthgauge.yaml
      depthgauge get queue_length --server http://127.0.0.1:8080 -o json
      depthgauge get queue_length --config depthgauge.yaml -o value

    Exit codes:
      0    answered with a number
      1    answered with an error, on stderr (-o json: its Status, on stdout)
      2    wrong usage
      130  interrupted
    """
    from adapter.cli.documents import format_failure, format_items, is_value_list, list_values
    from adapter.cli.terminal import print_error, print_text

    if server is not None:
        if config is not None and _is_typed(ctx, "config"):
            raise typer.BadParameter("give --config or --server, not both")
        document = _ask_server(server, namespace=namespace, metric=metric, selector=selector)
    elif config is not None:
        from adapter.cli.asking import ask, load_or_exit
        from adapter.serving.provider import Question

        document = ask(load_or_exit(config), Question(namespace, metric, selector))
    else:
        raise typer.BadParameter(
            "nobody to ask: give --config PATH (or set DEPTHGAUGE_CONFIG), or --server URL of a running adapter"
        )

    if output is ValueOutput.JSON:
        typer.echo(json.dumps(document, indent=2, ensure_ascii=False))
    elif not is_value_list(document):
        print_error(format_failure(document))
    else:
        print_text("\n".join(list_values(document)) if output is ValueOutput.VALUE else format_items(document))
    if not is_value_list(document):
        raise typer.Exit(1)


def _is_typed(ctx: typer.Context, name: str) -> bool:
    source = ctx.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def _ask_server(url: str, *, namespace: str, metric: str, selector: str) -> Mapping[str, Any]:
    from adapter.cli.terminal import print_error
    from adapter.upstream.adapter_api import AdapterUnreachable, BadServerUrl, fetch_document

    try:
        return fetch_document(url, namespace=namespace, metric=metric, selector=selector)
    except BadServerUrl as error:
        raise typer.BadParameter(str(error), param_hint="--server") from None
    except AdapterUnreachable as error:
        print_error(str(error))
        raise typer.Exit(1) from None
