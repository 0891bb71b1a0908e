"""kubectl as a child process, and the kubeconfig files that it reads."""

import base64
import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import yaml

from loadgen.cluster.errors import KubectlFailed
from loadgen.cluster.pki import Credential, replace_file

DEADLINE_S = 60.0


def write_kubeconfig(path: Path, *, url: str, authority_pem: bytes, credential: Credential) -> None:
    """Write a kubeconfig for one user of one cluster, with everything in it, readable by its owner alone."""
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {"name": "loopback", "cluster": {"server": url, "certificate-authority-data": _encode(authority_pem)}}
        ],
        "users": [
            {
                "name": path.stem,
                "user": {
                    "client-certificate-data": _encode(credential.certificate_pem),
                    "client-key-data": _encode(credential.key_pem),
                },
            }
        ],
        "contexts": [{"name": path.stem, "context": {"cluster": "loopback", "user": path.stem}}],
        "current-context": path.stem,
    }
    replace_file(path, yaml.safe_dump(config, sort_keys=False).encode(), mode=0o600)


class Kubectl:
    """Runs kubectl with one kubeconfig; the caller's own configuration and cache are neither read nor written."""

    def __init__(self, binary: Path, *, cache_folder: Path) -> None:
        self._binary = binary
        self._cache_folder = cache_folder

    def run(
        self, *arguments: str, kubeconfig: Path, text: str | None = None, deadline_s: float = DEADLINE_S
    ) -> subprocess.CompletedProcess[str]:
        """Run `kubectl ARGUMENTS` with *text* on its standard input.

        Raises: KubectlFailed with what it said, unless it ended with 0.
        """
        command = [str(self._binary), f"--kubeconfig={kubeconfig}", f"--cache-dir={self._cache_folder}", *arguments]
        proxies = {"http_proxy", "https_proxy", "all_proxy", "no_proxy"}
        environ = {name: value for name, value in os.environ.items() if name.lower() not in proxies}
        try:
            done = subprocess.run(
                command,
                input=text,
                capture_output=True,
                text=True,
                check=False,
                timeout=deadline_s,
                env=environ | {"KUBERC": "off"},
            )
        except subprocess.TimeoutExpired as exc:
            said = exc.stderr.decode("utf-8", "replace") if isinstance(exc.stderr, bytes) else exc.stderr
            raise KubectlFailed(arguments=arguments, exit_code=None, stderr=said or "") from exc
        if done.returncode != 0:
            raise KubectlFailed(arguments=arguments, exit_code=done.returncode, stderr=done.stderr)
        return done


def format_documents(documents: str | Mapping[str, object] | Sequence[Mapping[str, object]]) -> str:
    """Return objects as kubectl reads them from its standard input: YAML as it is, others as a list in JSON."""
    if isinstance(documents, str):
        return documents
    items = [documents] if isinstance(documents, Mapping) else list(documents)
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": items})


def _encode(content: bytes) -> str:
    return base64.b64encode(content).decode("ascii")
