#!/usr/bin/env bash
# The steps and guards of the models, the comments "model: NAME, ..." in the code, the switches of the
# simulation, their tests and the table in docs/dev/protocol.md name the same things.
set -euo pipefail

cd "$(dirname "$0")/.."

steps=$(grep -oE '/\* step [A-Za-z]+' model/reclaim.pml | awk '{ print $3 }' | sort)
guards=$(sed -nE 's/^#define ([a-z_]+) +[0-9]+ +\/\*.*/\1/p' model/reclaim.pml | sort)
code=$(grep -rhoE 'model: [A-Za-z_]+(, [A-Za-z_]+)*' src --include='*.h' --include='*.cc' |
  sed 's/model: //' | tr -d ',' | tr ' ' '\n' | sort -u)
simulation=$(sed -n '/^struct Guards {/,/^};/p' src/directory/reclaim_simulation.h |
  sed -nE 's/^ *bool ([a-z_]+) = true;.*/\1/p' | sort)
tested=$(grep -oE 'PEERCACHE_GUARD\([a-z_]+\)' src/directory/reclaim_simulation_rules_test.cc |
  grep -v '(name)' | sed -E 's/.*\((.*)\)/\1/' | sort -u)

table=$(awk -F'`' '/^[|] `[a-z_]+` [|]/ { print $2 }' ../docs/dev/protocol.md | sort)

# same WHAT A B: the names of A and B, line by line
same() {
  if [[ -z $2 || $2 != "$3" ]]; then
    echo "$1 (< only in the first, > only in the second):" >&2
    diff <(echo "$2") <(echo "$3") >&2 || true
    return 1
  fi
}
same "steps and guards of model/reclaim.pml, comments \"model: \" in src" \
  "$(sort <<<"$steps"$'\n'"$guards")" "$code"
same "guards of model/reclaim.pml, Guards in src/directory/reclaim_simulation.h" \
  "$guards" "$simulation"
same "guards of model/reclaim.pml, guards turned off in src/directory/reclaim_simulation_rules_test.cc" \
  "$guards" "$tested"
same "guards of model/reclaim.pml, table of docs/dev/protocol.md" \
  "$guards" "$table"
clears=
for of in clears drives; do
  named=$(sed -nE 's/^#define ([a-z_]+) +[0-9]+ +\/\*.*/\1/p' model/$of.pml | sort)
  same "guards of model/$of.pml, comments \"model $of: \" in src" "$named" \
    "$(grep -rhoE "model $of: [a-z_]+(, [a-z_]+)*" src --include='*.h' --include='*.cc' |
      sed "s/model $of: //" | tr -d ',' | tr ' ' '\n' | sort -u)"
  same "guards of model/$of.pml, table of docs/dev/protocol.md" "$named" \
    "$(awk -F'`' -v of="$of: " 'index($0, "| " of "`") == 1 { print $2 }' ../docs/dev/protocol.md | sort)"
  clears+=$named$'\n'
done

# Lines "guard file": where the code says that it follows a guard, and what the table says.
followed() {
  grep -roE 'model( clears| drives)?: [A-Za-z_]+(, [A-Za-z_]+)*' src --include='*.h' --include='*.cc' |
    sed -E 's/^src\/([^:]+):model( clears| drives)?: /\1 /' | tr -d ',' |
    awk '{ for (i = 2; i <= NF; ++i) print $i, $1 }'
}
listed() {
  # shellcheck disable=SC2016  # these are Markdown's
  sed -nE 's/^[|] (clears: |drives: )?`([a-z_]+)` [|].*[|] ([^|]*) [|]$/\2 \3/p' ../docs/dev/protocol.md | tr -d '`,' |
    awk '{ for (i = 2; i <= NF; ++i) print $1, $i }'
}
all_guards=$(sort -u <<<"$guards"$'\n'"${clears%$'\n'}")
same "files of each guard: column \"code\" of the tables in docs/dev/protocol.md, comments \"model: \" in src" \
  "$(listed | sort -u | join - <(echo "$all_guards") )" \
  "$(followed | sort -u | join - <(echo "$all_guards") )"
echo "model: $(wc -l <<<"$steps") steps and $(wc -l <<<"$guards") guards have the same names and files in code, simulation and docs"
