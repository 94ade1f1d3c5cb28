/* The name of shmem.h of before OpenSHMEM. */
#pragma once

#include "../shmem.h"
