#!/usr/bin/env bash
# Usage: guarded_program.sh <mpiexec> <guarded_program>. Every way to fail gives its exit code and message in seconds.
set -u
mpiexec=$1
program=$2
failures=0

# expect <how> <ranks> <exit code> <number of lines that match> <pattern>
expect() {
  local how=$1 ranks=$2 code=$3 lines=$4 pattern=$5
  local begin=$SECONDS output found status
  output=$(timeout 40 "$mpiexec" -n "$ranks" "$program" "$how" 2>&1)
  status=$?
  found=$(grep -cE -- "$pattern" <<<"$output")
  if [ "$status" -ne "$code" ] || [ "$found" -ne "$lines" ] || [ $((SECONDS - begin)) -gt 20 ]; then
    echo "FAILED: $how on $ranks ranks: exit code $status (expected $code), $found lines match '$pattern'" \
      "(expected $lines), $((SECONDS - begin)) s"
    echo "$output"
    failures=$((failures + 1))
  fi
}

for ranks in 1 3; do
  expect none $ranks 0 0 "tessera:"
  expect all $ranks 3 1 '^tessera: \[field.h5\] dataset is missing$'
  expect unknown $ranks 1 1 '^tessera: an exception of unknown type$'
  expect finish $ranks 6 0 "tessera:"
done
expect each 3 2 1 '^tessera: \[deck\] bad value on rank 0 \(ranks 0, 2\)$'
expect each 3 2 1 '^tessera: \[deck\] bad value on rank 1 \(rank 1\)$'
expect one 1 4 1 '^tessera: \[step 3\] found NaN$'
expect one 3 4 1 '^tessera: rank 2: \[step 3\] found NaN$'
TESSERA_TIMEOUT_SECONDS=1 expect late 3 5 1 "rank 0: \[barrier on 'world'\] sequence number .* not arrived: rank 2$"
TESSERA_TIMEOUT_SECONDS=soon expect none 1 2 1 "tessera: \\[TESSERA_TIMEOUT_SECONDS\\] found 'soon', expected a positive number"
[ "$failures" -eq 0 ]
