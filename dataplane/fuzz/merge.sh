#!/usr/bin/env bash
# Takes inputs that fuzzing has found over into the kept corpus: for each target the fewest that cover
# all that is covered now, up to a bound, so that the corpus stays small enough to run in every build.
#
#   fuzz/merge.sh [TARGET...]       all targets by default, after fuzz/run.sh has filled build/asan/corpus
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

BUILD=build/asan
MAX_FILES=50   # of a target, with its regressions
MAX_BYTES=2048 # of a file that was found

targets=("$@")
if [ ${#targets[@]} = 0 ]; then
  for path in "$BUILD"/fuzz/seeds/*/; do targets+=("$(basename "$path")"); done
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for name in "${targets[@]}"; do
  corpus=fuzz/corpus/$name
  [ -d "$BUILD/corpus/$name" ] || { echo "error: $name was not fuzzed here; run: dataplane/fuzz/run.sh $name" >&2; exit 1; }
  # What seeds and regressions cover is there anyway; merging adds what covers more, the best first.
  mkdir -p "$work/$name" "$work/found" "$corpus"
  mv "$corpus"/found-* "$work/found/" 2>/dev/null || true
  cp -r "$BUILD/fuzz/seeds/$name/." "$corpus/." "$work/$name/"
  "$BUILD/fuzz/fuzz_$name" -set_cover_merge=1 -max_len="$MAX_BYTES" "$work/$name" "$BUILD/corpus/$name" "$work/found" \
    >"$work/log" 2>&1 || { tail -20 "$work/log" >&2; exit 1; }
  room=$((MAX_FILES - $(find "$corpus" -type f | wc -l)))
  kept=0
  # By time: merging writes the input that adds most first.
  while read -r _ path; do
    file=${path##*/}
    [[ ! -e $corpus/$file && ! -e $BUILD/fuzz/seeds/$name/$file ]] || continue
    [ "$kept" -lt "$room" ] || break
    cp "$path" "$corpus/found-${file:0:12}"
    kept=$((kept + 1))
  done < <(find "$work/$name" -type f -printf '%T@ %p\n' | sort -n)
  rm -rf "$work/found"
  echo "    $name: $(find "$corpus" -type f | wc -l) files, $(du -sb "$corpus" | cut -f1) bytes, $kept of them found by fuzzing"
done
