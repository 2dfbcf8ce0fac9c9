/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the code of a simulated process asks the kernel directly, beside its reactor: clocks,
 * randomness, process ID, and the processes at the other end of its sockets. Programs linked with
 * sim_posix.c use --wrap for each function there. Outside of simulated processes all calls go to
 * the real functions. One thread.
 *
 * Each simulated process has a process ID (getpid) and one descriptor (a pidfd), assigned in the
 * order in which processes first ask.
 */
#ifndef WEFT_TESTS_SIM_POSIX_H
#define WEFT_TESTS_SIM_POSIX_H

#include "sim.h"

#define SIM_FIRST_PID   100
#define SIM_FIRST_PIDFD 2000000

/* Forgets all processes, for a new simulation. Called by sim_node_create for the first node. */
void sim_posix_reset(void);
/* Seeds the process' getrandom; default: from its name and the simulation's seed. */
void sim_posix_seed(struct sim_process *process, uint64_t seed);
/* Moves CLOCK_REALTIME only, for this process and those that ask later, as an administrator may. */
void sim_posix_jump_wall(struct sim_process *process, int64_t ns);
/* Number of processes killed by a signal of another process. */
uint64_t sim_posix_kills(void);
/* Those of them whose data and peers reactors all ran; a frozen control reactor is no reason to
 * kill. */
uint64_t sim_posix_live_kills(void);

#endif
