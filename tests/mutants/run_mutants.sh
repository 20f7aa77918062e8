#!/usr/bin/env bash
# Builds that are wrong on purpose (KVC_MUTATE) must fail the tests named here, and the same tests must pass in the build that is right.
#   bash tests/mutants/run_mutants.sh [MUTANT...]     checksum, lease, order, identity; default: all
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

# MUTANT  PROGRAM  TEST
readonly table='
checksum  gone_test          Gone.WithVerifiedReadsAFlippedBitIsAMissAndTheRowsBeforeItAreRight
checksum  gone_test          Gone.AVerifyFindsTheBitDropsThePageAndTheNextOneFindsNothing
checksum  gone_test          Gone.AnObjectWithAFlippedBitIsAMiss
lease     mutant_test        Promise.ALeasedChunkSurvivesAnyPressureAndGoesWhenTheLeaseEnds
lease     seq_index_test     IndexTest.B102UseThatIsRecordedWhileANodeIsQueuedChangesTheOrderAndNothingElse
lease     model_test         Model.EveryAnswerOfARandomHistoryIsTheOracles
lease     history_test       History.SharedPrefixesUnderEvictionAreRegistersThatAreWrittenOnceUntilTheyGo
order     mutant_test        Promise.NoChunkIsVisibleBeforeAllItsLayersAreStored
order     model_test         Model.EveryAnswerOfARandomHistoryIsTheOracles
identity  mutant_test        Promise.ASaltAndAnExtraSeparate
identity  seq_identity_test  Names.B01_no_two_assignments_of_fields_share_a_scope
identity  seq_identity_test  Names.golden_scopes_hold
'
readonly mutants=(${@:-checksum lease order identity})
readonly jobs=$(nproc)

build() { # MUTANT or "none": only the programs that judge it, fast
  local mutant=$1 directory=build/mutants/$1 programs
  [[ $mutant == none ]] && programs=$(awk 'NF { print $2 }' <<< "$table" | sort -u) || programs=$(awk -v m="$mutant" '$1 == m { print $2 }' <<< "$table" | sort -u)
  [[ $programs ]] || { echo "no mutant '$mutant': checksum, lease, order, identity" >&2; exit 2; }
  mkdir -p "$directory"
  cmake -S . -B "$directory" -G Ninja -DCMAKE_BUILD_TYPE=Debug -DCMAKE_CXX_FLAGS_DEBUG=-O1 -DCMAKE_C_FLAGS_DEBUG=-O1 -DKVC_FAULTS=ON -DKVC_MUTATE="${mutant#none}" \
    > "$directory/configure.log" 2>&1 || { cat "$directory/configure.log"; exit 1; }
  # shellcheck disable=SC2086
  ninja -C "$directory" -j "$jobs" $programs > "$directory/build.log" 2>&1 || { tail -40 "$directory/build.log"; exit 1; }
}

passes() { # MUTANT PROGRAM TEST: a crash, a hang and an empty filter are no passes
  local log=build/mutants/$1/$2.log
  { timeout 300 "build/mutants/$1/bin/$2" --gtest_filter="$3" > "$log" 2>&1; } 2> /dev/null && grep -q '\[  PASSED  \] [1-9]' "$log"
}

build none
failed=0
for mutant in "${mutants[@]}"; do
  build "$mutant"
  while read -r of program test; do
    [[ $of == "$mutant" ]] || continue
    if ! passes none "$program" "$test"; then
      echo "WRONG  $program $test fails without a mutation: build/mutants/none/$program.log"
      failed=1
    elif passes "$mutant" "$program" "$test"; then
      echo "ALIVE  $mutant: $program $test passes"
      failed=1
    else
      echo "dead   $mutant: $program $test"
    fi
  done <<< "$table"
done
exit $failed
