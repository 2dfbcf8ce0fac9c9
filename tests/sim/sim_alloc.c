/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The simulator's own memory, also used by tests. One thread.
 *
 * In a file of its own: a program that injects allocation failures defines these two functions
 * itself, so that the simulator is not affected.
 */
#include "sim.h"

#include <stdlib.h>

void *sim_alloc(size_t len_bytes)
{
	void *memory = calloc(1, len_bytes);

	CHECK(memory != NULL);
	return memory;
}

void *sim_realloc(void *memory, size_t len_bytes)
{
	memory = realloc(memory, len_bytes);
	CHECK(memory != NULL);
	return memory;
}
