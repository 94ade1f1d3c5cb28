/* Extensions of OpenSHMEM's interface would be declared here; there are none. */
#pragma once

#include "shmem.h"
