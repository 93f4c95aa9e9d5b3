# Prints a Dockerfile with only the stages that one target needs. Buildah before 1.29 builds every stage
# above the target, needed or not.   awk -v target=client -f stages.awk Dockerfile Dockerfile
# The file is read twice: to learn what each stage takes from which, and to print.

FNR == 1 { pass++; stage = "" }

toupper($1) == "FROM" {
  base = $2 ~ /^--platform=/ ? 3 : 2
  stage = toupper($(base + 1)) == "AS" ? $(base + 2) : $base
}

pass == 1 && stage != "" {
  if (toupper($1) == "FROM") uses[stage] = uses[stage] " " $base
  for (i = 1; i <= NF; i++) if (sub(/^.*from=/, "", $i) && toupper($1) != "FROM") {
    sub(/,.*/, "", $i)
    uses[stage] = uses[stage] " " $i
  }
}

pass == 2 && FNR == 1 { need(target) }
pass == 2 && (stage == "" || stage in needed) { print }

function need(name,    parts, n, i) {
  if (name in needed) return
  needed[name] = 1
  n = split(uses[name], parts, " ")
  for (i = 1; i <= n; i++) need(parts[i])
}
