#pragma once

#include "tests/support/world.hpp"
