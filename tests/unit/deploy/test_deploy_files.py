"""What `deploy/` has for containers, Kubernetes and systemd: it is read as those read it, and fits this release."""

from __future__ import annotations

import re
import shutil
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from txndeploy.node.config import NodeConfig

ROOT = Path(__file__).parents[3]
DEPLOY = ROOT / "deploy"
CONTAINERFILE = (DEPLOY / "container" / "Containerfile").read_text()
KUBERNETES = DEPLOY / "kubernetes"
KUBERNETES_VERSION = "1.32"
UNITS = sorted((DEPLOY / "systemd").glob("*.service"))
Document = dict[str, Any]


def config(folder: str, node: str) -> NodeConfig:
    """The node's configuration, as its container makes it."""
    return NodeConfig.model_validate(tomllib.loads((DEPLOY / folder / "node.toml").read_text().replace("@NODE@", node)))


def run(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


# ---- the image


def test_the_image_is_made_of_what_there_is() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = re.findall(r"'\.\[([a-z,]+)\]'", CONTAINERFILE)
    assert all(set(extra.split(",")) <= project["optional-dependencies"].keys() for extra in extras)
    copied = [words.split()[:-1] for words in re.findall(r"^COPY (?!--from)(.*)$", CONTAINERFILE, re.MULTILINE)]
    assert all((ROOT / name).exists() for names in copied for name in names)
    assert {package.split("/")[0] for package in ("txnstatus", "participant", "manager", "client", "deploy")} <= {
        name for names in copied for name in names
    }


def test_the_image_runs_as_nobody_in_particular() -> None:
    stages = re.split(r"^FROM ", CONTAINERFILE, flags=re.MULTILINE)[1:]
    runs = [stage for stage in stages if "ENTRYPOINT" in stage or " AS spark\n" in stage]
    assert len(runs) == 2
    assert [re.findall(r"^USER (.*)$", stage, re.MULTILINE)[-1] for stage in runs] == ["10001:10001"] * 2
    assert "--uid 10001" in CONTAINERFILE


# ---- Compose


@pytest.fixture
def compose() -> Document:
    document: Document = yaml.safe_load((DEPLOY / "compose" / "compose.yaml").read_text())
    return document


def test_compose_has_the_nodes_that_their_configuration_names(compose: Document) -> None:
    services = compose["services"]
    for node in ("n1", "n2", "n3"):
        settings, service = config("compose", node), services[node]
        assert service["environment"]["NODE"] == service["hostname"] == node
        assert settings.nodes.keys() == {"n1", "n2", "n3"}
        assert settings.nodes[node].address == f"{node}:7070"
        assert settings.tls is not None
        assert f"./certificates/{node}:/tls:ro" in service["volumes"]
        assert str(settings.data_dir).startswith("/var/lib/txnstatus/")
        assert f"{node}:/var/lib/txnstatus" in service["volumes"]
    assert services.keys() >= {"compactor", "spark-master", "spark-worker", "prometheus", "grafana"}
    assert services["spark-worker"]["deploy"]["replicas"] == 2
    prometheus = yaml.safe_load((DEPLOY / "compose" / "prometheus.yaml").read_text())
    (scraped,) = prometheus["scrape_configs"]
    assert scraped["static_configs"][0]["targets"] == ["n1:7272", "n2:7272", "n3:7272"]
    assert scraped["scheme"] == "https"
    assert all((DEPLOY / "monitoring" / name).exists() for name in prometheus["rule_files"])


def test_compose_mounts_what_there_is_and_opens_ports_on_this_machine_alone(compose: Document) -> None:
    for name, service in compose["services"].items():
        for volume in service.get("volumes", ()):
            source = volume.split(":")[0]
            made = source.startswith("./certificates/") or source in compose["volumes"]
            assert made or (DEPLOY / "compose" / source).exists(), f"{name}: {source}"
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", ())), name
        assert re.search(r":[v\d][\d.]+", service["image"]) or "build" in service, f"{name} has no version"
        for other in service.get("depends_on", ()):
            assert other in compose["services"]


def test_programs_run_where_spark_does_in_compose(compose: Document) -> None:
    """With the Spark that the library wants, the library, and as who the nodes are: they remove what tasks wrote."""
    for name in ("spark-master", "spark-worker"):
        service = compose["services"][name]
        build = service["build"]
        assert (DEPLOY / "compose" / build["context"] / build["dockerfile"]).resolve().read_text() == CONTAINERFILE
        stage = CONTAINERFILE.split(f" AS {build['target']}\n")[1].split("\nFROM ")[0]
        assert "COPY --from=build-spark" in stage
        assert "user" not in service
        assert service["environment"].keys() >= {"TXN_CLUSTER", "TXN_CREDENTIALS"}
        assert service["command"][0] == "spark-class"
    assert "-c constraints.txt '.[server,spark]'" in CONTAINERFILE.split(" AS build-spark\n")[1]


def test_certificates_of_compose_are_made(tmp_path: Path) -> None:
    script = shutil.copy(DEPLOY / "compose" / "certificates.sh", tmp_path)
    run("sh", "-c", f"PATH={ROOT}/.venv/bin:$PATH TXN_USER=ada sh {script}")
    for who in ("n1", "n2", "n3", "prometheus", "user"):
        assert {path.name for path in (tmp_path / "certificates" / who).iterdir()} == {
            "ca.pem",
            "certificate.pem",
            "key.pem",
        }
    assert (tmp_path / "certificates" / "authority" / "ca-key.pem").stat().st_mode & 0o077 == 0


# ---- Kubernetes


def resources() -> Iterator[Document]:
    """As they are applied, where kubectl is at hand, or else as they are written."""
    if shutil.which("kubectl"):
        yield from yaml.safe_load_all(run("kubectl", "kustomize", str(KUBERNETES)))
        return
    for name in yaml.safe_load((KUBERNETES / "kustomization.yaml").read_text())["resources"]:
        yield from yaml.safe_load_all((KUBERNETES / name).read_text())


def named(kind: str, name: str = "txnstatus") -> Document:
    return next(each for each in resources() if (each["kind"], each["metadata"]["name"]) == (kind, name))


def test_kubernetes_knows_all_that_is_said() -> None:
    validate = pytest.importorskip("kubernetes_validate", reason="pip install kubernetes-validate").validate
    for each in resources():
        validate(each, KUBERNETES_VERSION, strict=True)


def test_the_nodes_of_the_stateful_set_are_those_of_the_configuration() -> None:
    nodes = named("StatefulSet")
    pods = [f"txnstatus-{number}" for number in range(nodes["spec"]["replicas"])]
    service = named("Service", nodes["spec"]["serviceName"])
    assert service["spec"]["clusterIP"] == "None"
    assert service["spec"]["publishNotReadyAddresses"] is True
    for pod in pods:
        settings = config("kubernetes", pod)
        assert list(settings.nodes) == pods
        assert settings.nodes[pod].address == f"{pod}.{service['metadata']['name']}.txnstatus.svc:7070"
        assert settings.replication == len(pods)
        assert settings.tls is not None
        assert str(settings.tls.certificate) == f"/tls/{pod}.pem"
    (container,) = nodes["spec"]["template"]["spec"]["containers"]
    ports = {each["name"]: each["containerPort"] for each in container["ports"]}
    assert ports == {"node": 7070, "http": 7272}
    assert str(settings.http_address).endswith(f":{ports['http']}")


def test_probes_ask_what_a_node_answers() -> None:
    (container,) = named("StatefulSet")["spec"]["template"]["spec"]["containers"]
    served = set(re.findall(r'web\.get\("(/\w+)"', (DEPLOY / "txndeploy" / "node" / "http.py").read_text()))
    probes = {name: container[f"{name}Probe"]["httpGet"] for name in ("liveness", "readiness", "startup")}
    assert {probe["scheme"] for probe in probes.values()} == {"HTTPS"}
    asked = {name: probe["path"] for name, probe in probes.items()}
    assert asked == {"liveness": "/livez", "readiness": "/readyz", "startup": "/livez"}
    assert set(asked.values()) <= served


def test_one_node_at_a_time_is_taken_away_and_reached_by_whom_it_is_for() -> None:
    assert named("PodDisruptionBudget")["spec"]["maxUnavailable"] == 1
    labels = named("StatefulSet")["spec"]["template"]["metadata"]["labels"].items()
    for kind, name in (("PodDisruptionBudget", "txnstatus"), ("Service", "txnstatus"), ("Service", "txnstatus-nodes")):
        selector = named(kind, name)["spec"]["selector"]
        assert selector.get("matchLabels", selector).items() <= labels, name
    policy = named("NetworkPolicy", "txnstatus-nodes")["spec"]
    assert policy["policyTypes"] == ["Ingress"]
    assert all(rule["from"] and rule["ports"] for rule in policy["ingress"])


@pytest.mark.parametrize(("kind", "name"), [("StatefulSet", "txnstatus"), ("Deployment", "txnstatus-compactor")])
def test_pods_have_no_rights_that_they_do_not_need(kind: str, name: str) -> None:
    pod = named(kind, name)["spec"]["template"]["spec"]
    assert pod["automountServiceAccountToken"] is False
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    for container in pod["containers"]:
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert container["resources"]["limits"]["memory"]


# ---- systemd


@pytest.mark.parametrize("unit", UNITS, ids=[unit.stem for unit in UNITS])
def test_systemd_takes_the_unit_and_finds_it_shut_off(unit: Path, tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed")
    there = tmp_path / unit.name
    there.write_text(unit.read_text().replace("/opt/txnstatus/bin/txnctl", "/bin/true"))
    assert run("systemd-analyze", "verify", str(there)) == ""
    said = run("systemd-analyze", "security", "--offline=true", "--threshold=20", str(there))
    assert "OK" in said.splitlines()[-1]


def test_a_reload_has_a_node_read_its_levels_again() -> None:
    """The page says `systemctl reload`, which systemd refused: the unit did not say what that is."""
    (unit,) = [unit for unit in UNITS if unit.stem == "txnstatus-node"]
    assert re.findall(r"^ExecReload=(.*)$", unit.read_text(), re.MULTILINE) == ["/bin/kill -HUP $MAINPID"]


def test_units_run_what_txnctl_has() -> None:
    from txndeploy.ctl.commands import MODULES

    for unit in UNITS:
        (command,) = re.findall(r"^ExecStart=/opt/txnstatus/bin/txnctl (\w+)", unit.read_text(), re.MULTILINE)
        assert command in MODULES
    assert [unit.stem for unit in UNITS] == ["txnstatus-compactor", "txnstatus-node"]
