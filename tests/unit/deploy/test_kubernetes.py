"""The manifests are sound, as far as can be told without a cluster: names meet, ports agree."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from settings.load import load_settings
from settings.model import Settings
from tests.unit.deploy.monitoring import ROOT, RULES

FOLDER = ROOT / "deploy/kubernetes"
VERSIONS = {
    "Namespace": "v1",
    "Deployment": "apps/v1",
    "PersistentVolumeClaim": "v1",
    "Service": "v1",
    "NetworkPolicy": "networking.k8s.io/v1",
    "ServiceMonitor": "monitoring.coreos.com/v1",
}


def documents(path: Path) -> list[dict[str, Any]]:
    """Everything in a file."""
    return [one for one in yaml.safe_load_all(path.read_text("utf-8")) if one is not None]


KUSTOMIZATION: dict[str, Any] = documents(FOLDER / "kustomization.yaml")[0]
OBJECTS = {
    (one["kind"], one["metadata"]["name"]): one
    for name in KUSTOMIZATION["resources"]
    for one in documents(FOLDER / name)
}
MONITOR: dict[str, Any] = documents(FOLDER / "monitoring/service-monitor.yaml")[0]
POD: dict[str, Any] = OBJECTS["Deployment", "ecntwin"]["spec"]["template"]
CONTAINER: dict[str, Any] = POD["spec"]["containers"][0]
CONTAINERS = [*POD["spec"]["initContainers"], CONTAINER]
PORTS = {port["name"]: port for port in CONTAINER["ports"]}


def settings() -> Settings:
    """What the service starts with there."""
    return load_settings(FOLDER / "ecntwin.yaml")


def rendered() -> list[dict[str, Any]]:
    """What kubectl would apply."""
    kubectl = shutil.which("kubectl")
    if kubectl is None:
        pytest.skip("kubectl is not installed: the files are looked at as they are")
    done = subprocess.run([kubectl, "kustomize", FOLDER], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return list(yaml.safe_load_all(done.stdout))


def test_kinds_have_the_version_that_clusters_serve() -> None:
    for (kind, _), document in OBJECTS.items():
        assert document["apiVersion"] == VERSIONS[kind]
    assert MONITOR["apiVersion"] == VERSIONS[MONITOR["kind"]]
    assert {kind for kind, _ in OBJECTS} == set(VERSIONS) - {"ServiceMonitor"}


def test_every_file_is_used() -> None:
    listed = {*KUSTOMIZATION["resources"], "kustomization.yaml"}
    listed |= {name for one in KUSTOMIZATION["configMapGenerator"] for name in one["files"]}
    assert {path.name for path in FOLDER.glob("*.yaml")} == listed
    component = documents(FOLDER / "monitoring/kustomization.yaml")[0]
    assert component["kind"] == "Component"
    assert set(component["resources"]) == {path.name for path in (FOLDER / "monitoring").glob("s*.yaml")}


def test_a_pod_is_what_services_and_policies_look_for() -> None:
    labels = POD["metadata"]["labels"]
    assert OBJECTS["Deployment", "ecntwin"]["spec"]["selector"]["matchLabels"].items() <= labels.items()
    for (kind, name), document in OBJECTS.items():
        if kind == "Service":
            assert document["spec"]["selector"].items() <= labels.items(), name
        elif kind == "NetworkPolicy":
            assert document["spec"]["podSelector"]["matchLabels"].items() <= labels.items()


def test_one_service_and_one_journal() -> None:
    spec = OBJECTS["Deployment", "ecntwin"]["spec"]
    assert (spec["replicas"], spec["strategy"]) == (1, {"type": "Recreate"})
    grace_s = POD["spec"]["terminationGracePeriodSeconds"]
    assert grace_s > settings().server.shutdown_grace_s


def test_what_is_named_is_there() -> None:
    volumes = {one["name"]: one for one in POD["spec"]["volumes"]}
    for container in CONTAINERS:
        assert {mount["name"] for mount in container["volumeMounts"]} <= set(volumes)
    assert {mount["name"] for one in CONTAINERS for mount in one["volumeMounts"]} == set(volumes)
    claim = volumes["journal"]["persistentVolumeClaim"]["claimName"]
    assert ("PersistentVolumeClaim", claim) in OBJECTS
    generated = {one["name"] for one in KUSTOMIZATION["configMapGenerator"]}
    assert volumes["settings"]["configMap"]["name"] in generated
    assert {one["name"] for one in KUSTOMIZATION["images"]} == {one["image"] for one in CONTAINERS}
    assert KUSTOMIZATION["namespace"] in {name for kind, name in OBJECTS if kind == "Namespace"}


def test_the_settings_are_where_the_command_reads_them() -> None:
    mounts = {one["name"]: one["mountPath"] for one in CONTAINER["volumeMounts"]}
    assert CONTAINER["args"] == ["serve", "--config", f"{mounts['settings']}/ecntwin.yaml"]
    assert KUSTOMIZATION["configMapGenerator"][0]["files"] == ["ecntwin.yaml"]
    assert settings().storage.url == f"sqlite:///{mounts['journal']}/journal.db"
    assert f"NUMBA_CACHE_DIR={mounts['kernels']}" in (ROOT / "Dockerfile").read_text("utf-8")


def test_ports_are_those_of_the_settings() -> None:
    assert settings().server.host == settings().telemetry.udp.host == "0.0.0.0"
    assert PORTS["http"]["containerPort"] == settings().server.port
    assert (PORTS["telemetry"]["containerPort"],) == settings().telemetry.udp.ports
    assert PORTS["telemetry"]["protocol"] == "UDP"
    for (kind, name), document in OBJECTS.items():
        for port in document["spec"]["ports"] if kind == "Service" else ():
            assert port["targetPort"] in PORTS, name
            assert port.get("protocol", "TCP") == PORTS[port["targetPort"]].get("protocol", "TCP")
    for rule in OBJECTS["NetworkPolicy", "ecntwin"]["spec"]["ingress"]:
        for port in rule["ports"]:
            assert port["protocol"] == PORTS[port["port"]].get("protocol", "TCP")


def test_services_follow_readiness_and_keep_the_senders_addresses() -> None:
    """A service is ready before the first report (``tests/integration/http/test_programs.py``)."""
    for (kind, name), document in OBJECTS.items():
        if kind == "Service":
            assert "publishNotReadyAddresses" not in document["spec"], name
    assert OBJECTS["Service", "ecntwin-telemetry"]["spec"]["externalTrafficPolicy"] == "Local"


def test_datagrams_are_let_in_by_policy_and_settings_alike() -> None:
    ingress = OBJECTS["NetworkPolicy", "ecntwin"]["spec"]["ingress"]
    allowed = [
        peer["ipBlock"]["cidr"]
        for rule in ingress
        if {"port": "telemetry", "protocol": "UDP"} in rule["ports"]
        for peer in rule["from"]
    ]
    assert tuple(allowed) == settings().telemetry.udp.allow


def test_the_policy_lets_nobody_in_or_out_who_is_not_named() -> None:
    spec = OBJECTS["NetworkPolicy", "ecntwin"]["spec"]
    assert set(spec["policyTypes"]) == {"Ingress", "Egress"}
    for rule in spec["ingress"]:
        assert rule["from"]
        assert rule["ports"]
    for rule in spec["egress"]:
        assert rule["to"]
    assert "0.0.0.0/0" not in yaml.safe_dump(spec)


def test_probes_ask_what_the_service_answers_without_a_token() -> None:
    paths = {kind: CONTAINER[f"{kind}Probe"]["httpGet"] for kind in ("startup", "liveness", "readiness")}
    assert {kind: asked["path"] for kind, asked in paths.items()} == {
        "startup": "/healthz",
        "liveness": "/healthz",
        "readiness": "/readyz",
    }
    assert {asked["port"] for asked in paths.values()} == {"http"}


@pytest.mark.parametrize("container", CONTAINERS, ids=lambda one: one["name"])
def test_a_container_is_locked_down_and_has_limits(container: dict[str, Any]) -> None:
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    for kind in ("requests", "limits"):
        assert set(container["resources"][kind]) == {"cpu", "memory"}


def test_a_pod_runs_as_the_image_s_user_without_an_account() -> None:
    spec = POD["spec"]
    context = spec["securityContext"]
    assert context["runAsNonRoot"] is True
    user = re.search(r"--uid (\d+) ", (ROOT / "Dockerfile").read_text("utf-8"))
    assert user is not None
    assert context["runAsUser"] == context["runAsGroup"] == context["fsGroup"] == int(user[1])
    assert context["seccompProfile"] == {"type": "RuntimeDefault"}
    assert spec["automountServiceAccountToken"] is False
    labels = OBJECTS["Namespace", "ecntwin"]["metadata"]["labels"]
    assert labels["pod-security.kubernetes.io/enforce"] == "restricted"


def test_variables_that_kubernetes_makes_up_are_kept_out() -> None:
    """A service named ecntwin is ECNTWIN_PORT in its pods, an unknown setting."""
    assert POD["spec"]["enableServiceLinks"] is False
    (workers,) = CONTAINER["env"]
    assert workers["name"] == "ECNTWIN_SEARCH__WORKERS"
    assert workers["valueFrom"]["resourceFieldRef"]["resource"] == "limits.cpu"
    assert int(CONTAINER["resources"]["limits"]["cpu"]) >= 2


def test_secrets_are_named_and_not_written() -> None:
    named = [
        (one["secretRef"]["name"], one["secretRef"].get("optional", False)) for one in CONTAINER["envFrom"]
    ]
    assert named == [("ecntwin-tokens", False), ("ecntwin-switches", True)]
    assert not any(kind == "Secret" for kind, _ in OBJECTS)
    page = (ROOT / "docs/start/deploy.md").read_text("utf-8")
    for name in ("ecntwin-tokens", MONITOR["spec"]["endpoints"][0]["authorization"]["credentials"]["name"]):
        assert f"create secret generic {name} " in page


def test_the_operator_scrapes_the_service_under_the_name_that_rules_have() -> None:
    (endpoint,) = MONITOR["spec"]["endpoints"]
    service = OBJECTS["Service", "ecntwin"]
    assert MONITOR["spec"]["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
    assert endpoint["port"] in {port["name"] for port in service["spec"]["ports"]}
    (shared,) = KUSTOMIZATION["labels"]
    assert shared["pairs"][MONITOR["spec"]["jobLabel"]] == "ecntwin"


def test_kubectl_makes_one_whole_of_it() -> None:
    made = {(one["kind"], one["metadata"]["name"]): one for one in rendered()}
    assert set(OBJECTS) <= set(made)
    (settings_map,) = [name for kind, name in made if kind == "ConfigMap"]
    spec = made["Deployment", "ecntwin"]["spec"]["template"]["spec"]
    assert {"name": "settings", "configMap": {"name": settings_map}} in spec["volumes"]
    assert len({one["image"] for one in [*spec["containers"], *spec["initContainers"]]}) == 1
    for (kind, _), document in made.items():
        assert kind == "Namespace" or document["metadata"]["namespace"] == "ecntwin"


def test_selectors_are_rendered_as_the_files_have_them() -> None:
    """A shared label added to them would shut out clients, which carry only the one that the page names."""
    made = {(one["kind"], one["metadata"]["name"]): one for one in rendered()}
    labels = made["Deployment", "ecntwin"]["spec"]["template"]["metadata"]["labels"]
    assert labels["app.kubernetes.io/name"] == "ecntwin"
    for which, document in OBJECTS.items():
        for key in {"selector", "podSelector", "ingress"} & set(document.get("spec", ())):
            assert made[which]["spec"][key] == document["spec"][key], which
    let_in = [peer for rule in made["NetworkPolicy", "ecntwin"]["spec"]["ingress"] for peer in rule["from"]]
    label = re.search(r"pods labelled `(\S+): \"(\w+)\"`", (ROOT / "docs/start/deploy.md").read_text("utf-8"))
    assert label is not None
    client = {"namespaceSelector": {}, "podSelector": {"matchLabels": {label[1]: label[2]}}}
    assert client in let_in


def test_the_claim_holds_the_default_history_of_a_thousand_ports() -> None:
    page = (ROOT / "docs/operate/history.md").read_text("utf-8")
    in_the_end = re.search(r"^\| in the end \| ([\d.]+) GB ", page, re.MULTILINE)
    assert in_the_end is not None
    asked = OBJECTS["PersistentVolumeClaim", "ecntwin-journal"]["spec"]["resources"]["requests"]["storage"]
    assert int(asked.removesuffix("Gi")) * 2**30 > float(in_the_end[1]) * 10**9


def test_rules_become_the_operator_s_as_the_page_says() -> None:
    page = (ROOT / "docs/start/deploy.md").read_text("utf-8")
    loop = re.search(r"^for file in deploy.*?^done", page, re.MULTILINE | re.DOTALL)
    assert loop is not None
    done = subprocess.run(["bash", "-c", loop[0]], cwd=ROOT, capture_output=True, text=True, check=True)
    made = list(yaml.safe_load_all(done.stdout))
    assert [one["kind"] for one in made] == ["PrometheusRule"] * len(RULES)
    assert [one["spec"] for one in made] == [yaml.safe_load(path.read_text("utf-8")) for path in RULES]
