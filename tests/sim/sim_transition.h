/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counts state changes that are visible from outside: ANA states set by an operator, and path
 * states reported by an mpath. One thread.
 */
#ifndef WEFT_TESTS_SIM_TRANSITION_H
#define WEFT_TESTS_SIM_TRANSITION_H

#include "sim_run.h"

#include "host/mpath.h"
#include "wire/log_page.h"

/* A state that stays the same is not counted. */
void sim_transition_ana(struct sim_counters *counters, enum ana_state from, enum ana_state to);
void sim_transition_path(struct sim_counters *counters, enum path_state from, enum path_state to);

#endif
