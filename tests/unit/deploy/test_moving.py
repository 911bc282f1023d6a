"""What a backup for other places says of where tables are."""

from __future__ import annotations

from txndeploy.backup.moving import renamed
from txndeploy.backup.places import Place, placed
from txnstatus.proto import common_pb2 as common
from txnstatus.proto import participant_pb2 as pb
from txnstatus.raft.parts import address, split

OLD, NEW = "file:///old/air/a", "file:///new/air/a"


def test_a_table_that_another_shard_has_by_now_is_in_its_new_place_for_the_one_that_it_left_too() -> None:
    places = placed([Place("air.a", OLD, ())], {"file:///old": "file:///new"})
    its = pb.ShardSnapshot(
        tables=[pb.ShardSnapshot.TableState(info=common.TableInfo(table_id="0.1", name="air.a", location=OLD))],
        gone=[pb.ShardSnapshot.Gone(table_id="0.1", shard=1, location=OLD)],
    )
    _, rest = split(renamed(address("shard-0") + its.SerializeToString(), places, {}))
    after = pb.ShardSnapshot.FromString(rest)
    assert [each.info.location for each in after.tables] == [NEW]
    assert [each.location for each in after.gone] == [NEW], "else another table could be made there"
