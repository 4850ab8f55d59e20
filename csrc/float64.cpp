#include "choices.h"

template struct unbounded::Calls<double>;
