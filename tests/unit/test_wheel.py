"""What is installed is the package: no test and no benchmark."""

from pathlib import Path

from hatchling.builders.wheel import WheelBuilder

ROOT = Path(__file__).parents[2]


def test_a_wheel_holds_the_package_and_nothing_that_stands_beside_it() -> None:
    files = [Path(file.distribution_path) for file in WheelBuilder(str(ROOT)).recurse_included_files()]
    assert {file.parts[0] for file in files} == {"eventflink"}
    assert Path("eventflink/cli/main.py") in files
    assert not {"benchmarks", "tests"} & {part for file in files for part in file.parts}
