/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counts changes of states that can be seen from outside: ANA states that an operator sets, paths
 * as their mpath tells of them. One thread.
 */
#ifndef WEFT_TESTS_SIM_TRANSITION_H
#define WEFT_TESTS_SIM_TRANSITION_H

#include "sim_run.h"

#include "host/mpath.h"
#include "wire/log_page.h"

/* Those from a state to itself are none. */
void sim_transition_ana(struct sim_counters *counters, enum ana_state from, enum ana_state to);
void sim_transition_path(struct sim_counters *counters, enum path_state from, enum path_state to);

#endif
