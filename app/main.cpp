#include "parallel/runtime.hpp"

int main(int argc, char** argv) {
  tessera::Runtime runtime(argc, argv);
  return tessera::run_guarded(*runtime.world(), [] { return 0; });
}
