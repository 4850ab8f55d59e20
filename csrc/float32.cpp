#include "choices.h"

template struct unbounded::Calls<float>;
