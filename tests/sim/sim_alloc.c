/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The simulator's own memory, and that of tests around it. One thread.
 *
 * In a file of its own so that a program that lets allocations of the code under test fail can
 * define these two functions itself and leave the simulator out of it.
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
