"""Coverage-guided fuzzing of readers and model files, by Atheris: `pip install ordbm[fuzz]`.

PYTHONPATH=tests python -m fuzzing.guided readers build/fuzz/readers -max_total_time=600

Inputs that reach new lines are kept in the folder and go on to be changed; options are libFuzzer's.
The judges are those of `make fuzz`.
"""

import sys
import tempfile
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["ordbm.datasets", "ordbm.persistence", "ordbm.data"]):
    import ordbm.datasets  # noqa: F401
    from ordbm.persistence import model_file  # noqa: F401

from fuzzing import model_files, rating_files
from fuzzing.kinds import Input, judged_by

NAMES = ["ratings.csv", "u.data", "ratings.dat", "ratings.txt", "combined_data_1.txt"]
NAMES += ["x.zip", "x.csv.gz"]
KINDS = {
    "readers": next(kind for kind in rating_files.KINDS if kind.name == "text, layout found"),
    "models": next(kind for kind in model_files.KINDS if kind.name.endswith("damaged bytes")),
}


def seeds(target):
    """Sound files, for a start; the first byte of a reader's input says which name it has."""
    if target == "models":
        return [content for content, *_ in model_files.sound()]
    texts = [(name, content) for name, *_, content in rating_files.sound_texts()[0]]
    files = [*texts, *rating_files.sealed(), *(("x", one) for one in rating_files.tables())]
    return [bytes([NAMES.index(name) if name in NAMES else 0]) + content for name, content in files]


def main():
    target, *options = sys.argv[1:]
    kind = KINDS[target]
    corpus = Path(next((one for one in options if not one.startswith("-")), f"build/fuzz/{target}"))
    corpus.mkdir(parents=True, exist_ok=True)
    for number, content in enumerate(seeds(target)):
        (corpus / f"seed-{number}").write_bytes(content)
    model_files.without_waiting_for_disks()
    folder = Path(tempfile.mkdtemp(prefix="guided-"))

    def judge(content):
        if target == "models":
            given = Input("x.ordbm", content)
        else:
            given = Input(NAMES[content[0] % len(NAMES)] if content else NAMES[0], content[1:])
        judged_by(kind, given, folder)

    atheris.Setup([sys.argv[0], *options], judge)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
