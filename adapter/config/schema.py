"""The keys of a configuration file, as design and documentation name them, and their JSON Schema."""

from typing import Annotated, Any, ClassVar, Final, Literal, Self

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag
from pydantic.alias_generators import to_camel
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

from adapter.config.fields import (
    BackendName,
    Duration,
    FilePath,
    HeaderName,
    HeaderValue,
    LabelKey,
    LabelValue,
    MetricName,
    NamespaceName,
    ParamName,
    Query,
    Resolution,
    Text,
    Timeout,
    Url,
)

_TEXT: Final = "\0text"
_MAPPING: Final = "\0mapping"
_LIST: Final = "\0list"

UNION_TAGS: Final = frozenset({_TEXT, _MAPPING, _LIST})
"""What pydantic puts into an error's location for the form of a union; spelled as no key is."""


class _Keys(BaseModel):
    model_config: ClassVar[ConfigDict] = ConfigDict(
        extra="forbid", strict=True, frozen=True, alias_generator=to_camel, validate_by_name=False
    )

    @classmethod
    def build_default(cls) -> Self:
        """Return what stands for keys that are not written."""
        return cls.model_validate({})


class BasicAuthKeys(_Keys):
    """HTTP basic authentication towards the backend."""

    username: Text = Field(description="The user's name.")
    password_file: FilePath = Field(description="A file that holds the password; read again when it changes.")


class TlsKeys(_Keys):
    """How the backend's certificate is checked, and the client's own certificate."""

    ca_file: FilePath | None = Field(None, description="Certificates to trust (PEM) in place of the system's own.")
    cert_file: FilePath | None = Field(None, description="The client's certificate (PEM).")
    key_file: FilePath | None = Field(None, description="The key of certFile; not needed if certFile holds it too.")
    server_name: Text | None = Field(None, description="The name that the backend's certificate must have.")
    insecure_skip_verify: bool = Field(False, description="Accept any certificate.")


class BackendKeys(_Keys):
    """A Prometheus-compatible server."""

    url: Url = Field(description="http or https; a path prefix is kept.", examples=["http://prometheus:9090"])
    timeout: Timeout = Field("5s", description="The deadline of one query; also sent upstream as timeout=.")
    max_concurrency: int = Field(16, ge=1, le=1000, description="Queries under way at once; four times as many wait.")
    bearer_token_file: FilePath | None = Field(None, description="A file that holds a token; read again on change.")
    basic_auth: BasicAuthKeys | None = Field(None, description="Not together with bearerTokenFile.")
    tls: TlsKeys | None = Field(None, description="How the backend's certificate is checked.")
    headers: dict[HeaderName, HeaderValue] = Field({}, description="Headers of every query, such as X-Scope-OrgID.")
    params: dict[ParamName, str] = Field({}, description="Extra query parameters (Thanos, Mimir, VictoriaMetrics).")


class NamespaceLabelKeys(_Keys):
    """Each namespace sees the series whose label is its name."""

    label: Text = Field(description="The Prometheus label that holds the namespace.")


class ZeroWhileKeys(_Keys):
    """Answer 0 for an empty result as long as there is evidence that it is the truth."""

    zero_while: Query = Field(description="PromQL; the answer is 0 only while this has a result.")


def _pick_by_type(expected: str, *, text: str, has_list: bool = False) -> Discriminator:
    """Return what tells the forms of a union apart by the value's type, so that only one form's problems are told."""

    def pick(value: Any) -> str | None:  # noqa: ANN401 - whatever the YAML holds
        if isinstance(value, list) and has_list:
            return _LIST
        if isinstance(value, dict | BaseModel):
            return _MAPPING
        return _TEXT if value == text else None

    return Discriminator(
        pick,
        custom_error_type="refused",
        custom_error_message="{detail}",
        custom_error_context={"detail": expected},
    )


Namespace = Annotated[
    Annotated[Literal["any"], Tag(_TEXT)]
    | Annotated[NamespaceLabelKeys, Tag(_MAPPING)]
    | Annotated[list[NamespaceName], Field(min_length=1), Tag(_LIST)],
    _pick_by_type(
        "expected any, {label: LABEL}, or a list of namespaces such as [team-a]",
        text="any",
        has_list=True,
    ),
]
Empty = Annotated[
    Annotated[Literal["error"], Tag(_TEXT)] | Annotated[ZeroWhileKeys, Tag(_MAPPING)],
    _pick_by_type("expected error or {zeroWhile: PROMQL}", text="error"),
]


class GuardKeys(_Keys):
    """Checks that a result is fit to scale on."""

    max_age: Duration | None = Field(None, description="The oldest contributing sample; off: 0s.", examples=["2m"])
    freshness: Query | None = Field(None, description="PromQL giving Unix seconds, where timestamp() is not the truth.")
    lost_targets: Duration | None = Field(
        None, description="A target that fed this rule within this window is down now; off: 0s.", examples=["24h"]
    )
    tolerate_lost: Literal["none", "any"] = Field("none", description="any: error only when every target is down.")
    min_series: int = Field(0, ge=0, description="Series that the query's selectors must select.")
    max_series: int = Field(1000, ge=1, description="Result series; more refuse the rule.")
    expect_one: bool = Field(False, description="More than one selected item is an error.")
    allow_partial: bool = Field(False, description="Accept an answer with warnings, or isPartial.")
    require: Query | None = Field(None, description="PromQL; an empty result, 0 or NaN: do not scale on this.")


class MetricKeys(_Keys):
    """One metric and the PromQL behind it."""

    name: MetricName = Field(description="The metric's name; asked for in any case.", examples=["queue_length_orders"])
    query: Query = Field(
        description="PromQL. $matchers is where a request's selectors go, $namespace is its namespace in quotes.",
        examples=["sum by (queue) (queue_length)"],
    )
    backend: BackendName = Field("default", description="The backend that is asked.")
    namespace: Namespace = Field("any", description="Who may ask, and what each namespace sees.")
    labels: dict[LabelKey, Text] = Field({}, description="Selector key to Prometheus label.")
    aliases: dict[LabelKey, dict[LabelValue, Text]] = Field({}, description="Selector value to label value, by key.")
    empty: Empty = Field("error", description="What an empty result means.")
    negative: Literal["error", "clamp"] = Field("error", description="What a negative value means; clamp: 0.")
    hold: Duration = Field("0s", description="Serve the last good answer this long while the backend is away.")
    guards: GuardKeys = Field(
        default_factory=GuardKeys.build_default, description="Checks that a result is fit to scale on."
    )


class SeriesFilterKeys(_Keys):
    """A regular expression that the series' name must match, or must not."""

    matches: Text | None = Field(None, alias="is", description="The name must match.")
    excludes: Text | None = Field(None, alias="isNot", description="The name must not match.")


class OverrideKeys(_Keys):
    """The Kubernetes resource that a label names."""

    group: str = Field("", description="The API group.")
    resource: Text = Field(description="The resource.", examples=["namespace"])


class ResourceKeys(_Keys):
    """Which label holds the namespace."""

    overrides: dict[Text, OverrideKeys] = Field({}, description="Label to resource.")
    template: str = Field("", description="The label of a resource, as a template.", examples=["<<.Resource>>"])
    namespaced: bool = Field(True, description="Whether the request's namespace is a matcher.")


class NamingKeys(_Keys):
    """The metric's name, made from the series' name."""

    matches: str = Field("", description="A regular expression on the series' name.")
    expanded: str = Field("", alias="as", description="The metric's name; $1 or ${1} is what a group matched.")


class ExternalRuleKeys(_Keys):
    """A rule as prometheus-adapter has it."""

    series_query: Text = Field(description="The series; its name is the metric's, unless name says otherwise.")
    series_filters: list[SeriesFilterKeys] = Field([], description="Which of the series count.")
    resources: ResourceKeys = Field(
        default_factory=ResourceKeys.build_default, description="Which label holds the namespace."
    )
    name: NamingKeys = Field(default_factory=NamingKeys.build_default, description="The metric's name.")
    metrics_query: Text = Field(description="PromQL with <<.Series>> and <<.LabelMatchers>>.")


class FileKeys(_Keys):
    """One configuration file of depthgauge."""

    prometheus: BackendKeys | None = Field(None, description="The backend named default.")
    backends: dict[BackendName, BackendKeys] = Field({}, description="More backends, by name.")
    resolution: Resolution = Field("5s", description="The distance of ticks, from 1s to 60s.")
    metrics: list[MetricKeys] = Field([], description="The metrics that are served.")
    external_rules: list[ExternalRuleKeys] = Field([], description="prometheus-adapter's own, unchanged.")
    rules: list[Any] = Field([], description="prometheus-adapter's custom metrics: accepted and ignored.")
    resource_rules: dict[str, Any] = Field({}, description="prometheus-adapter's resource metrics: ignored.")


class _SchemaWriter(GenerateJsonSchema):
    """JSON Schema in which a key is absent or has a value: null is no value."""

    def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ANN401, ARG002 - pydantic's signature
        return False

    def nullable_schema(self, schema: core_schema.NullableSchema) -> JsonSchemaValue:
        return self.generate_inner(schema["schema"])

    def default_schema(self, schema: core_schema.WithDefaultSchema) -> JsonSchemaValue:
        if schema.get("default", ...) is None:
            return self.generate_inner(schema["schema"])
        return super().default_schema(schema)


def build_json_schema() -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of a configuration file."""
    schema = FileKeys.model_json_schema(by_alias=True, schema_generator=_SchemaWriter)
    definitions = schema["$defs"]
    for definition in definitions.values():
        for key in definition["properties"].values():
            if "$ref" in key:  # pydantic drops the key's own description where its default is made by a factory
                key.setdefault("description", definitions[key["$ref"].rpartition("/")[2]]["description"])
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema, "title": "depthgauge configuration"}
