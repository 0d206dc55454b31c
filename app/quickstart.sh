#!/usr/bin/env bash
# From nothing to trained, compared and drawn surrogates on one machine: installs the packages, builds Tessera, and runs the main
# job on 4 ranks. Everything it makes lies under runs/. Usage: bash app/quickstart.sh
set -euo pipefail
cd "$(dirname "$0")/.."
source app/setup.sh

started=$SECONDS
step() { printf '\n== %s (%d s)\n' "$*" $((SECONDS - started)); }
tessera() { mpirun -n 4 build/release/bin/tessera "$@"; }

step "Packages"
tessera_install
step "Build"
TESSERA_CMAKE_ARGUMENTS="-DTESSERA_TESTS=OFF" tessera_build tessera
tessera_winds

step "Observed winds: train on 8 years, forecast the last 2, one month ahead"
tessera train inputs/winds.yaml -d runs/winds --force
tessera predict inputs/winds_predict.yaml -d runs/winds_forecast --force --quiet

step "Shallow water: simulate 8 basins on 4 uneven ranks"
tessera simulate inputs/shallow_water.yaml -d runs/shallow_water --force
for model in convnet vit; do
  step "Shallow water: train a $model and roll it out over 10 steps"
  tessera train "inputs/shallow_water_$model.yaml" -d "runs/shallow_water_$model" --force
  tessera predict inputs/shallow_water_predict.yaml "predict.run=runs/shallow_water_$model" \
    -d "runs/shallow_water_${model}_forecast" --force --quiet
done

step "Pictures"
pictures=runs/pictures
mkdir -p "$pictures"
post() { build/release/bin/tessera post "$@"; }
post plot runs/winds/history.jsonl -o "$pictures/winds_loss.png"
post plot runs/winds_forecast/truth runs/winds_forecast/prediction -o "$pictures/winds.png"
for model in convnet vit; do
  post plot "runs/shallow_water_${model}_forecast/truth" "runs/shallow_water_${model}_forecast/prediction" \
    --field height --leads 1,5,10 -o "$pictures/shallow_water_$model.png"
done

step "Summary"
echo
echo "Observed winds, test months, one month ahead"
post compare runs/winds_forecast/{truth,prediction,persistence,climatology} --metrics pooled_rmse
for model in convnet vit; do
  echo
  echo "Shallow water, $model, 10 steps ahead"
  post compare "runs/shallow_water_${model}_forecast"/{truth,prediction,persistence} --metrics vrmse
done
echo
echo "Pictures"
ls -1 "$pictures"/*.png
printf '\nDone in %d min %02d s.\n' $(((SECONDS - started) / 60)) $(((SECONDS - started) % 60))
