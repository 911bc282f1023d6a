"""Roles in a cluster of real processes: several users with certificates of their own, and what each may do."""

from __future__ import annotations

import contextlib
import json
import re
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests import blocks
from tests.support import SCHEMA, fast_cluster, rows, visible, wait_until
from txnclient import (
    AlreadyExists,
    Client,
    Grant,
    IllegalState,
    InvalidArgument,
    LimitReached,
    NotAuthorized,
    NotFound,
    connect,
)
from txndeploy.ctl import commands
from txndeploy.local.authority import Authority
from txndeploy.local.cluster import LocalCluster
from txndeploy.overview.health import ExitCode
from txnstatus.proto import admin_pb2
from txnstatus.security import tls
from txnstatus.security.principals import Kind
from txnstatus.security.tls import VARIABLE

User = Callable[[str], Client]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    roots = [tmp_path_factory.mktemp("apart").as_uri()]
    with fast_cluster(tmp_path_factory.mktemp("roles"), secure=True, table_roots=roots) as running:
        yield running


@pytest.fixture(scope="module")
def credentials(cluster: LocalCluster, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    authority, directory = Authority.load(cluster.directory / "authority"), tmp_path_factory.mktemp("users")

    def of(name: str) -> Path:
        if not (directory / name).exists():
            authority.issue(Kind.USER, name, directory / name)
        return directory / name

    return of


@pytest.fixture(scope="module")
def user(cluster: LocalCluster, credentials: Callable[[str], Path]) -> Iterator[User]:
    """Clients by their users' names; `admin` is whoever runs the cluster."""
    there: dict[str, Client] = {}

    def of(name: str) -> Client:
        if name not in there:
            shown = cluster.credentials if name == "admin" else credentials(name)
            there[name] = connect(cluster.addresses, credentials=shown)
        return there[name]

    yield of
    for client in there.values():
        client.close()


def granted(user: User, role: str, name: str, on: str | None) -> None:
    """Returns once every node goes by it."""
    admin, client = user("admin"), user(name)
    admin.grant(role, name, on=on)
    wait_until(lambda: sees(client, role, on), f"{name} is {role} of {on}")


def sees(client: Client, role: str, on: str | None) -> bool:
    """Whether each node that is asked knows of the grant: the client asks one after the other."""
    return all(Grant(on, client.owner, role) in client.grants(client.owner) for _ in range(6))


def test_whoever_has_no_role_is_told_nothing(user: User) -> None:
    user("admin").create_table("dark.there", SCHEMA)
    eve = user("eve")
    for call in (
        eve.last_commit,
        eve.tables,
        eve.begin,
        eve.savepoints,
        eve.compactions,
        eve.locks,
        eve.transactions,
        lambda: eve.get(0),
        lambda: eve.create_table("dark.more", SCHEMA),
    ):
        with pytest.raises(NotAuthorized, match="eve may not call"):
            call()
    texts = set()
    for name in ("dark.there", "dark.nowhere"):
        with pytest.raises(NotAuthorized, match=f"for reader or operator on table {name}") as told:
            eve.table(name)
        texts.add(str(told.value).replace(name, "NAME"))
    assert len(texts) == 1, "what is there is told by how it is refused"
    assert eve.grants() == []


def test_each_role_does_what_it_says(user: User) -> None:
    admin, table = user("admin"), "sales.orders"
    admin.create_table(table, SCHEMA)
    for role, name in (("reader", "rita"), ("writer", "wim"), ("owner", "olga")):
        granted(user, role, name, table)
    granted(user, "operator", "otto", None)
    rita, wim, olga, otto = map(user, ("rita", "wim", "olga", "otto"))

    with wim.transaction() as txn:
        txn.write(rows(1), table)
    assert visible(rita, table) == visible(wim, table) == visible(olga, table) == [[1]]
    with pytest.raises(NotAuthorized, match=f"otto may not call Table/Scan: that is for reader on table {table}"):
        visible(otto, table)
    txn = rita.begin()
    with pytest.raises(NotAuthorized, match=f"for writer on table {table}"):
        txn.write(rows(2), table)
    txn.abort()  # it is still hers
    with pytest.raises(NotAuthorized, match=f"for writer on table {table}"):
        rita.begin(tables=[table])

    for refused in (rita, wim, otto):
        with pytest.raises(NotAuthorized, match=f"for owner on table {table}"):
            refused.alter_table(table, add="more bigint")
        with pytest.raises(NotAuthorized, match=f"for (reader|writer|owner).* on table {table}"):
            refused.drop_table(table)
        with pytest.raises(NotAuthorized, match=f"for owner on table {table}"):
            refused.grant("reader", "eve", on=table)
    olga.alter_table(table, add="more bigint")
    with pytest.raises(NotAuthorized, match="for admin on table"):
        olga.grant("admin", "olga", on=table)
    with pytest.raises(NotAuthorized, match="for owner on database sales"):
        olga.grant("reader", "rita", on="sales")

    held = wim.begin()
    for refused in (rita, olga):
        with pytest.raises(NotAuthorized, match="for operator on the cluster"):
            refused.abort(held.id, "it is in my way")
    otto.abort(held.id, "it is in the way")
    for name in ("rita", "wim", "olga"):
        with pytest.raises(NotAuthorized, match="for operator on the cluster"):
            user(name).add_group()


def test_whoever_may_not_ask_nodes_hears_of_no_trouble(
    cluster: LocalCluster, user: User, credentials: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nodes were said not to answer, and groups to have no leader, when only an operator was told."""
    granted(user, "reader", "rita", "lounge")
    monkeypatch.setenv(VARIABLE, str(credentials("rita")))
    for command, code in (("status", 0), ("health", 1), ("top", 0), ("doctor", 2)):
        looks = ["--once"] if command == "top" else []
        result = CliRunner().invoke(commands.app, [command, *looks, "--cluster", cluster.addresses])
        assert result.exit_code == code, f"{command}: {result.output}{result.exception!r}"
        assert not re.search("no answer|does not answer|no leader|silent", result.output), result.output
        assert re.search("not told|to operators of the cluster only|for operator on the cluster", result.output)
        assert r"\n" not in result.output


def test_whoever_has_no_role_is_not_told_that_the_cluster_is_down(
    cluster: LocalCluster, credentials: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was said to be down by a node that serves, and had refused to tell a stranger."""
    monkeypatch.setenv(VARIABLE, str(credentials("nora")))
    result = CliRunner().invoke(commands.app, ["health", "--json", "--cluster", cluster.addresses])
    found = json.loads(result.output)
    assert (result.exit_code, found["exit_code"]) == (1, 1)
    assert [each["is_down"] for each in found["troubles"]] == [False]
    assert "nora may not call" in found["troubles"][0]["what"]


@pytest.mark.parametrize(
    ("who", "told"),
    [
        ("revoked", "user rex of cluster .* is revoked"),
        ("of another authority", "does not hold"),
        ("expired", "certificate has expired"),
        ("nobody", "takes connections with TLS only.*certificate.*JWT.*secret.*ticket"),
    ],
)
def test_whoever_is_refused_is_not_told_that_the_cluster_is_down(
    cluster: LocalCluster,
    user: User,
    credentials: Callable[[str], Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    who: str,
    told: str,
) -> None:
    """It was said to be down, of which nobody but the one who serves can know better."""
    if who == "revoked":
        shown = credentials("rex")
        revoking = admin_pb2.DistrustRequest(what="user/rex")
        user("admin").call("txnstatus.Admin/Distrust", revoking, admin_pb2.DistrustResponse)
    elif who == "of another authority":
        shown = tmp_path / "shown"
        Authority.found(cluster.configs["n1"].cluster_name, tmp_path / "other").issue(Kind.USER, "rex", shown)
    else:
        shown = tmp_path / "shown"
        Authority.load(cluster.directory / "authority").issue(Kind.USER, "late", shown, days=-0.001)
        monkeypatch.setattr(tls, "REPLACED_SECONDS", 0.0)  # the files are new, and no others are to come
    if who == "nobody":
        monkeypatch.delenv(VARIABLE, raising=False)
    else:
        monkeypatch.setenv(VARIABLE, str(shown))
    asked = [commands.app, ["health", "--json", "--cluster", cluster.addresses]]
    result = wait_until(
        lambda: (found := CliRunner().invoke(*asked)).exit_code != ExitCode.AMISS and found, "each node has heard of it"
    )
    found = json.loads(result.output)
    assert (result.exit_code, found["exit_code"]) == (ExitCode.REFUSED, ExitCode.REFUSED), result.output
    assert [each["is_down"] for each in found["troubles"]] == [False]
    assert re.search(told, found["troubles"][0]["what"])
    result = CliRunner().invoke(commands.app, ["health", "--cluster", cluster.addresses])
    assert result.stdout.endswith("refused\n")


def test_what_one_may_not_see_is_not_listed(user: User) -> None:
    admin = user("admin")
    for name in ("seen.one", "hidden.one", "hidden.two"):
        admin.create_table(name, SCHEMA)
    granted(user, "reader", "sam", "seen.one")
    sam = user("sam")
    assert [each.name for each in sam.tables()] == ["seen.one"]
    with admin.transaction(label="of both") as both:
        both.write(rows(1), "seen.one")
        both.write(rows(1), "hidden.one")
    with admin.transaction(label="of one") as one:
        one.write(rows(2), "seen.one")
    own = sam.begin(label="his own")
    assert {each.txn_id for each in sam.transactions()} >= {own.id, one.id}
    assert all(each.owner == "sam" or set(each.participants) <= {"seen.one"} for each in sam.transactions())
    told = sam.get(both.id)
    assert told.state == admin.get(both.id).state
    assert (told.owner, told.label, tuple(told.participants)) == ("", "", ())
    assert admin.get(both.id).label == "of both"
    with pytest.raises(NotAuthorized, match=r"for reader or operator on table hidden\.one"):
        sam.transactions(participant="hidden.one")
    with pytest.raises(NotAuthorized, match="for reader or operator on the cluster"):
        sam.timeline()
    admin.savepoint("of hidden", ["hidden.one"])
    admin.savepoint("of seen", ["seen.one"])
    assert [each.name for each in sam.savepoints()] == ["of seen"]
    with pytest.raises(NotAuthorized, match="belongs to"):
        sam.release_savepoint("of seen")
    catalog = sam.call(
        "txnstatus.Admin/GetCluster", admin_pb2.GetClusterRequest(), admin_pb2.GetClusterResponse
    ).catalog
    assert catalog.nodes
    assert not catalog.grants
    assert [each for each in sam.grants() if each.identity != "sam"] == []


def test_whoever_makes_a_table_owns_it_and_a_drop_ends_what_was_granted(user: User) -> None:
    granted(user, "writer", "ann", "mine")
    ann, bob, admin = user("ann"), user("bob"), user("admin")
    with pytest.raises(NotAuthorized, match="for writer on database others"):
        ann.create_table("others.t", SCHEMA)
    ann.create_table("mine.t", SCHEMA)
    assert Grant("mine.t", "ann", "owner") in ann.grants()
    ann.grant("writer", "bob", on="mine.t")
    wait_until(lambda: sees(bob, "writer", "mine.t"), "bob may write")
    with bob.transaction() as txn:
        txn.write(rows(7), "mine.t")
    with pytest.raises(NotAuthorized):
        bob.drop_table("mine.t")
    ann.drop_table("mine.t")
    wait_until(lambda: all(each.on != "mine.t" for each in admin.grants()), "what was granted on it is forgotten")
    admin.create_table("mine.t", SCHEMA)  # another one
    assert all(each.on != "mine.t" for each in admin.grants())
    with pytest.raises(NotAuthorized):
        bob.begin(tables=["mine.t"])
    with pytest.raises(NotFound):
        admin.grant("reader", "bob", on="mine.nowhere")


def test_a_table_is_made_in_no_place_that_is_somebody_elses(cluster: LocalCluster, user: User) -> None:
    granted(user, "writer", "lea", "hers")
    lea, admin, root = user("lea"), user("admin"), f"{cluster.warehouse}/hers/t"
    admin.create_table("others.t", SCHEMA, location=f"{root}/place/of/t")
    for taken in ("place/of/t", "place/of", "place", "place/of/t/below", ""):
        with pytest.raises(InvalidArgument, match="is not free: somebody else has a table there"):
            lea.create_table("hers.t", SCHEMA, location=f"{root}/{taken}".rstrip("/"))
    lea.create_table("hers.t", SCHEMA, location=f"{root}/place/of/t2")
    admin.create_table("others.t2", SCHEMA, location=f"{root}/place/of/t/too")


def test_of_two_users_at_the_same_moment_one_gets_a_place(cluster: LocalCluster, user: User) -> None:
    for name in ("lea", "leo"):
        granted(user, "writer", name, f"of_{name}")
    root, ready = cluster.configs["n1"].table_roots[0], threading.Barrier(2)

    def makes(name: str, place: int) -> str:
        """Empty, or why it is refused."""
        below = "/below" if name == "leo" else ""
        ready.wait(timeout=30)
        try:
            user(name).create_table(f"of_{name}.t{place}", SCHEMA, location=f"{root}/{place}{below}")
        except InvalidArgument as error:
            return error.message
        return ""

    with ThreadPoolExecutor(2) as threads:
        for place in range(10):
            made, refused = sorted(threads.map(makes, ("lea", "leo"), (place, place)))
            assert not made, "one of the two makes it"
            assert "is not free: somebody else" in refused


def test_no_link_leads_to_a_place_that_is_somebody_elses(cluster: LocalCluster, user: User) -> None:
    granted(user, "writer", "lea", "hers")
    admin, directory = user("admin"), Path(cluster.warehouse.removeprefix("file://"))
    place = user("admin").create_table("others.linked", SCHEMA).location
    with admin.transaction() as txn:
        txn.write(rows(1), "others.linked")
    (directory / "hers" / "led").mkdir(parents=True)
    (directory / "hers" / "led" / "link").symlink_to(place.removeprefix("file://"))
    for below in ("", "/below"):
        with pytest.raises(InvalidArgument, match="is not free: somebody else has a table there"):
            user("lea").create_table("hers.led", SCHEMA, location=f"{cluster.warehouse}/hers/led/link{below}")


def test_nobody_takes_a_place_that_another_table_gets_by_its_name(cluster: LocalCluster, user: User) -> None:
    granted(user, "writer", "lea", "hers")
    lea, root = user("lea"), cluster.warehouse
    for taken, whose in (
        ("later/next", "table later.next"),
        ("later/next/below", "table later.next"),
        ("later", "database later"),
        ("hers/other", "table hers.other"),
    ):
        with pytest.raises(InvalidArgument, match=f"is not free: in the warehouse that is the place of {whose}"):
            lea.create_table("hers.mine", SCHEMA, location=f"{root}/{taken}")
    lea.create_table("hers.mine", SCHEMA, location=f"{root}/hers/mine/deep")
    lea.create_table("hers.too", SCHEMA, location=f"{root}/hers/mine")


@pytest.mark.parametrize("name", ["*", "..", "\u0430lice", "x" * 101])
def test_nothing_is_granted_to_whom_no_certificate_can_name(user: User, name: str) -> None:
    with pytest.raises(InvalidArgument, match="no user can be called"):
        user("admin").grant("reader", name, on="t")
    user("admin").revoke("reader", name, on="t")


def test_a_revocation_holds_for_what_begins_then(user: User) -> None:
    admin = user("admin")
    admin.create_table("open.t", SCHEMA)
    granted(user, "writer", "vera", "open")
    vera = user("vera")
    txn, other = vera.begin(), vera.begin()
    txn.write(rows(1), "open.t")
    admin.revoke("writer", "vera", on="open")
    wait_until(lambda: all(vera.grants() == [] for _ in range(6)), "vera has no role")
    with pytest.raises(NotAuthorized):
        other.write(rows(2), "open.t")
    other.abort()
    txn.commit()
    assert visible(admin, "open.t") == [[1]]


def test_whoever_begins_too_much_is_refused_and_nobody_else(cluster: LocalCluster, user: User) -> None:
    shown = {"TXN_CLUSTER": cluster.addresses, VARIABLE: str(cluster.credentials)}

    def limit(value: int) -> None:
        result = CliRunner().invoke(commands.app, ["config", "set", "user_begins_per_second", str(value)], env=shown)
        assert result.exit_code == 0, result.output

    for name in ("greedy", "modest"):
        granted(user, "reader", name, None)
    greedy, modest = user("greedy"), user("modest")
    greedy.timeout = 2.0  # who has more asks again when it helps

    def is_refused() -> bool:
        try:
            greedy.begin_many(20)
        except LimitReached as error:
            return "user_begins_per_second = 5 are possible" in error.message
        return False

    limit(5)
    try:
        wait_until(is_refused, "who begins too much is refused")
        modest.begin().abort()
    finally:
        limit(0)
    wait_until(lambda: not is_refused(), "there is no limit any more")


def test_what_the_page_shows_is_done(cluster: LocalCluster, user: User) -> None:
    shown = {"TXN_CLUSTER": cluster.addresses, VARIABLE: str(cluster.credentials)}
    with contextlib.suppress(AlreadyExists):
        user("admin").create_table("sales.orders", SCHEMA)
    for line in blocks.block("docs/security.md", "txnctl grant").splitlines():
        result = CliRunner().invoke(commands.app, line.split()[1:], env=shown)
        assert result.exit_code == 0, f"{line}: {result.output}"
    assert user("admin").grants("bob") == [Grant("sales.orders", "bob", "reader")]
    assert user("admin").grants("alice") == []


def test_roles_are_granted_by_txnctl_and_by_sql(cluster: LocalCluster, user: User) -> None:
    shown = {"TXN_CLUSTER": cluster.addresses, VARIABLE: str(cluster.credentials)}

    def ctl(*arguments: str, code: int = 0) -> str:
        result = CliRunner().invoke(commands.app, arguments, env=shown)
        assert result.exit_code == code, f"{arguments}: {result.output}{result.exception!r}"
        return result.output

    assert "carl is reader of database shop" in ctl("grant", "reader", "carl", "--on", "shop")
    assert "carl is operator of the cluster" in ctl("grant", "operator", "carl", "--everywhere")
    assert "database shop" in ctl("grants", "carl")
    ctl("grant", "reader", "carl", code=2)
    ctl("grant", "reader", "carl", "--on", "shop.nowhere", code=1)
    ctl("revoke", "operator", "carl", "--everywhere")
    admin = user("admin")
    with admin.sql_session("roles") as session:
        session.sql("GRANT writer ON DATABASE shop TO carl")
        session.sql("GRANT admin ON CLUSTER TO 'carl@example.org'")
        session.sql("REVOKE reader ON DATABASE shop FROM carl")
        told = session.sql("SHOW GRANTS").to_pylist()
    assert {"object": None, "identity": "carl@example.org", "role": "admin"} in told
    assert admin.grants("carl") == [Grant("shop", "carl", "writer")]
    admin.revoke("admin", "carl@example.org", on=None)


def test_what_is_granted_on_a_table_goes_with_its_name(user: User) -> None:
    admin, table, other = user("admin"), "moved.before", "moved.after"
    admin.create_table(table, SCHEMA)
    admin.write(rows(1), table)
    for role, name in (("reader", "rick"), ("owner", "olive")):
        granted(user, role, name, table)
    rick, olive, mallory = map(user, ("rick", "olive", "mallory"))
    with pytest.raises(NotAuthorized, match="for owner on table"):
        rick.rename_table(table, other)
    with pytest.raises(NotAuthorized, match="for writer on database moved"):
        olive.rename_table(table, other)
    with rick.snapshot() as before:
        admin.rename_table(table, other)
        wait_until(lambda: sees(rick, "reader", other) and sees(olive, "owner", other), "the grants have moved")
        assert before.to_arrow(other).num_rows == 1
    with pytest.raises(NotAuthorized, match=f"for reader on table {table}"):
        visible(rick, table)
    assert not [each for each in admin.grants() if each.on == table]
    admin.create_table(table, SCHEMA)
    granted(user, "owner", "mallory", table)
    assert visible(mallory, table) == [[]]
    with mallory.snapshot(at=before.timestamp) as then, pytest.raises(NotAuthorized, match="what it is called now"):
        then.to_arrow(table)


def test_a_token_says_a_name_and_reaches_no_other_table_that_takes_it(cluster: LocalCluster, user: User) -> None:
    admin, table, other = user("admin"), "scoped.before", "scoped.after"
    admin.create_table(table, SCHEMA)
    admin.write(rows(1), table)
    granted(user, "writer", "tom", table)
    granted(user, "writer", "ursula", "scoped")
    txns = [user(name).begin() for name in ("tom", "ursula")]
    tokens = [txn.token(tables=[table]) for txn in txns]
    admin.rename_table(table, other)
    wait_until(lambda: sees(user("tom"), "writer", other), "the grant has moved")
    admin.create_table(table, SCHEMA)
    admin.write(rows(100, 101), table)
    for token, may_read in zip(tokens, (False, True), strict=True):
        with connect(cluster.addresses, credentials=token) as executor:
            joined = executor.join(token)
            if may_read:
                assert joined.snapshot.to_arrow(table).num_rows == 2, "its owner may read it"
            for read in (other, *(() if may_read else (table,))):
                with pytest.raises(NotAuthorized):
                    joined.snapshot.to_arrow(read)
            with pytest.raises(IllegalState if may_read else NotAuthorized):
                joined.write(rows(2), table)
    for txn in txns:
        txn.abort()
    assert visible(admin, table, other) == [[100, 101], [1]]
