#pragma once

// simdjson without its throwing conversions: an unchecked result does not compile.

#define SIMDJSON_EXCEPTIONS 0
#include <simdjson.h>
