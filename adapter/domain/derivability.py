"""Which guards of a rule cannot be derived from its query, and why: said by `check`, `explain` and a self-metric."""

from adapter.domain.inputs import Inputs, derive_inputs
from adapter.domain.matchers import Matcher
from adapter.domain.rules import Rule

_EXAMPLE = (Matcher("placeholder", "!=", ""),)


def derive_rule_inputs(rule: Rule) -> Inputs:
    """Return the inputs of *rule*'s query, rendered for some request."""
    matchers = _EXAMPLE if rule.query.has_matchers else ()
    return derive_inputs(rule.query.render(matchers=matchers, namespace="default"))


def find_underived(rule: Rule) -> dict[str, str]:
    """Return the guards that are on and do nothing for *rule*, each with the reason and the way out."""
    inputs = derive_rule_inputs(rule)
    reason = "; ".join(inputs.gaps or inputs.notes)
    if not reason:
        return {}
    found: dict[str, str] = {}
    if rule.guards.max_age_s > 0 and rule.guards.freshness is None:
        found["maxAge"] = f"{reason}; write guards.freshness"
    if rule.guards.lost_targets_s > 0 and rule.guards.require is None:
        found["lostTargets"] = f"{reason}; write guards.require"
    if rule.guards.min_series > 0 and inputs.gaps:
        found["minSeries"] = f"{reason}; write guards.require"
    return found
