"""The ConfigMap that says whom the API server lets speak for users: every form of it, and the ones that are none."""

import pytest

from adapter.domain.identity import AuthenticationSettings
from adapter.upstream.kube import parse_authentication_settings

FULL = {
    "client-ca-file": "A",
    "requestheader-client-ca-file": "B",
    "requestheader-allowed-names": '["front-proxy-client","other"]',
    "requestheader-username-headers": '["X-Remote-User"]',
    "requestheader-uid-headers": '["X-Remote-Uid"]',
    "requestheader-group-headers": '["X-Remote-Group","X-Team"]',
    "requestheader-extra-headers-prefix": '["X-Remote-Extra-"]',
}


def test_settings_are_read_with_header_names_in_lower_case() -> None:
    """As kube-apiserver publishes them; names of certificates keep their case."""
    assert parse_authentication_settings(FULL) == AuthenticationSettings(
        requestheader_ca_pem=b"B",
        client_ca_pem=b"A",
        allowed_names=frozenset({"front-proxy-client", "other"}),
        username_headers=("x-remote-user",),
        uid_headers=("x-remote-uid",),
        group_headers=("x-remote-group", "x-team"),
        extra_header_prefixes=("x-remote-extra-",),
    )


def test_what_is_missing_has_defaults_and_no_authority() -> None:
    """An empty ConfigMap lets nobody speak for others."""
    assert parse_authentication_settings({}) == AuthenticationSettings()
    assert AuthenticationSettings().requestheader_ca_pem == b""


@pytest.mark.parametrize("text", ["", " ", "[]", "null"])
def test_empty_list_of_allowed_names_means_any(text: str) -> None:
    """Go writes an empty list as null too."""
    assert parse_authentication_settings({**FULL, "requestheader-allowed-names": text}).allowed_names == frozenset()


@pytest.mark.parametrize("text", ["[]", "null"])
def test_empty_list_of_headers_means_none(text: str) -> None:
    """Said to be empty is not the same as not said."""
    assert parse_authentication_settings({**FULL, "requestheader-group-headers": text}).group_headers == ()


@pytest.mark.parametrize("text", ["front-proxy-client", '"front-proxy-client"', "5", "{}", "[5]", "[null]", "[["])
@pytest.mark.parametrize("key", ["requestheader-allowed-names", "requestheader-username-headers"])
def test_what_is_no_list_of_strings_is_an_error(key: str, text: str) -> None:
    """Never taken for an empty list, which would mean any name."""
    with pytest.raises(ValueError, match=r".+"):
        parse_authentication_settings({**FULL, key: text})
