"""Hunt mutants: ``python -m tests.mutants --seed 1 --count 60``; exit code 1 if more than a tenth of a draw survive.

They are drawn by the seed from all that the grammar makes of the code of proofs, gaps, intervals and verdicts. Mutants
that change nothing are listed in ``equivalent.txt``, each with its proof, and are not drawn. ``--sample`` tries those
of ``sample.txt``, each against the test that stands beside it: all of them must die, in three minutes.
"""

import argparse
import random
import sys
from pathlib import Path

from .grammar import Mutant, mutants
from .hunt import Fate, Where, clone, followed, hunted, import_libraries

ROOT = Path(__file__).parents[2]
SHARE = 0.9  # of the mutants drawn must die
ROOMS = {  # what promises something, and the tests of it
    "certificates": (["src/buttress/certificates/*.py"],
                     ["tests/test_certificates.py", "tests/test_certificate_bounds.py", "tests/test_hostile_radii.py",
                      "tests/test_verify_radii.py", "tests/test_radii.py", "tests/test_certificate_rounding.py",
                      "tests/test_certificate_terms.py", "tests/test_certificate_allowances.py",
                      "tests/test_laws_of_lines.py", "tests/test_laws_of_falls.py",
                      "tests/test_laws_of_steps.py", "tests/test_laws_of_radii.py", "tests/test_laws_of_questions.py",
                      "tests/test_pipelines_proven.py", "tests/test_threats.py", "tests/test_threats_of_few_numbers.py",
                      "tests/test_quadratic_bound.py", "tests/test_quadratic_terms.py", "tests/test_second_order.py",
                      "tests/test_regions_of_moves.py", "tests/test_branching.py", "tests/test_least_squares.py",
                      "tests/test_robust_trees.py", "tests/test_exact_attacks.py", "tests/test_ball_attack.py",
                      "tests/test_columns.py"]),
    "training": (["src/buttress/certificates/training/*.py"],
                 ["tests/test_training_flips.py", "tests/test_training_hinge.py", "tests/test_training_moves.py",
                  "tests/test_training_conclusions.py", "tests/test_training_pipelines.py",
                  "tests/test_training_terms.py", "tests/test_training_left_out.py", "tests/test_training_wrong.py"]),
    "verify": (["src/buttress/verify/*.py", "src/buttress/verify/inputs/*.py"],
               ["tests/test_verify.py", "tests/test_verify_honest.py", "tests/test_verify_radii.py",
                "tests/test_verify_training.py", "tests/test_verify_moves.py", "tests/test_verify_trees.py",
                "tests/test_verify_threat.py", "tests/test_verify_rounding.py", "tests/test_verify_kernels.py",
                "tests/test_verify_programs.py", "tests/test_verify_balls.py", "tests/test_verify_fits.py",
                "tests/test_verify_folders.py", "tests/test_evidence.py", "tests/test_verify_quadratic.py",
                "tests/test_verify_below.py", "tests/test_verify_leads.py", "tests/test_verify_boxes.py"]),
    "gaps": (["src/buttress/_proof.py", "src/buttress/gram/rounding.py", "src/buttress/solvers/qp/certificate.py",
              "src/buttress/solvers/ball/soft_ball.py", "src/buttress/solvers/linear/primal.py",
              "src/buttress/solvers/linear/attacked_bounds.py"],
             ["tests/test_proven_gaps.py", "tests/test_gap.py", "tests/test_smo.py", "tests/test_svm.py",
              "tests/test_svm_regressor.py", "tests/test_outlier.py", "tests/test_chunks.py", "tests/test_linear.py",
              "tests/test_adversarial_linear.py", "tests/test_proven_terms.py", "tests/test_penalised.py",
              "tests/test_allowances.py", "tests/test_stated_gaps.py", "tests/test_stated_bounds.py",
              "tests/test_stated_balls.py", "tests/test_certificate_allowances.py",
              "tests/test_certificate_rounding.py"]),
    "intervals": (["src/buttress/relational/optimum/*.py", "src/buttress/certainty/intervals.py"],
                  ["tests/relational/test_fit.py", "tests/relational/test_oracle.py",
                   "tests/relational/test_stated_optimum.py",
                   "tests/test_intervals.py", "tests/test_certainty.py", "tests/test_stated_intervals.py"]),
    "verdicts": (["src/buttress/audit/conclude.py"],
                 ["tests/test_audit.py", "tests/test_audit_report.py", "tests/test_findings.py",
                  "tests/test_stated_verdicts.py"]),
}


def files_of(room: str) -> list[str]:
    """Return the files of a room, from the root."""
    return [str(path.relative_to(ROOT)) for pattern in ROOMS[room][0] for path in ROOT.glob(pattern)]


def drawn(files: list[str], seed: str, count: int) -> list[Mutant]:
    """Return so many mutants of the files, by the seed alone."""
    known = {line.partition(" # ")[0] for line in (Path(__file__).parent / "equivalent.txt").read_text().splitlines()}
    every = [one for file in files for one in mutants(file, (ROOT / file).read_text(encoding="utf-8"))]
    every = [one for one in every if said(one, with_line=False) not in known]
    return random.Random(seed).sample(every, min(count, len(every)))


def sample() -> tuple[list[Mutant], Where]:
    """Return the mutants of the sample and the test that each meets; ValueError for one that is no more."""
    some, where = [], Where()
    for line in (Path(__file__).parent / "sample.txt").read_text().splitlines():
        text, _, test = line.partition(" # ")
        file = text.split()[0]
        named = [one for one in mutants(file, (ROOT / file).read_text(encoding="utf-8"))
                 if said(one, with_line=False) == text]
        if not named:
            raise ValueError(f"There is no such mutant any more; name another: {text}")
        some.append(named[0])
        where.setdefault(file, {}).setdefault(named[0].line, []).append(test)
    return some, where


def said(one: Mutant, with_line: bool = True) -> str:
    source = (ROOT / one.file).read_text(encoding="utf-8")
    line = f":{one.line}" if with_line else ""
    return f"{one.file}{line} {one.kind}: {' '.join(source[one.start:one.end].split())} -> {one.text}"


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__.splitlines()[0])
    parser.add_argument("--seed", nargs="*", default=["0"], help="any words, as hashes of commits: a draw for each")
    parser.add_argument("--count", type=int, default=60)
    parser.add_argument("--minutes", type=float, help="after which no further mutant is tried")
    parser.add_argument("--rooms", nargs="*", choices=tuple(ROOMS), default=list(ROOMS))
    parser.add_argument("--sample", action="store_true", help="only those of sample.txt, all of which must die")
    given = parser.parse_args(arguments)
    rooms = {room: files_of(room) for room in given.rooms}
    where = Where()
    if given.sample:
        some, where = sample()
        draws = {"the sample": some}
    else:
        files = sorted(file for files in rooms.values() for file in files)
        draws = {seed: drawn(files, seed, given.count) for seed in given.seed}
    import_libraries()
    failed = False
    with clone(ROOT) as folder:
        for room, files in [] if given.sample else rooms.items():
            met = sorted({one.file for some in draws.values() for one in some} & set(files))
            where |= followed(folder, met, ROOMS[room][1]) if met else {}
        for name, some in draws.items():
            fates = [_told(one) for one in hunted(folder, some, where, given.minutes)]
            died = sum(one.died for one in fates)
            sys.stdout.write(f"{name}: {died} of {len(fates)} died\n")
            failed |= died < (1 if given.sample else SHARE) * len(fates)
    return int(failed)


def _told(one: Fate) -> Fate:
    sys.stdout.write(f"{'died    ' if one.died else 'SURVIVED'} of {one.tests:3} tests  {said(one.mutant)}\n")
    sys.stdout.flush()
    return one


if __name__ == "__main__":
    sys.exit(main())
