/* The name of shmemx.h of before OpenSHMEM. */
#pragma once

#include "../shmemx.h"
