/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the code of a simulated process asks the kernel directly, beside its reactor: clocks,
 * randomness, its number, and the processes at the other end of its sockets. Programs that are
 * linked with sim_posix.c give the linker --wrap for each function there; outside of simulated
 * processes they all are the true ones. One thread.
 *
 * Each simulated process has a number (getpid) and one descriptor that stands for it (a pidfd),
 * given out in the order in which they first ask.
 */
#ifndef WEFT_TESTS_SIM_POSIX_H
#define WEFT_TESTS_SIM_POSIX_H

#include "sim.h"

#define SIM_FIRST_PID   100
#define SIM_FIRST_PIDFD 2000000

/* A new simulation: nobody is known. sim_node_create of the first node does this. */
void sim_posix_reset(void);
/* What its getrandom gives; without, the name and the simulation's seed decide. */
void sim_posix_seed(struct sim_process *process, uint64_t seed);
/* CLOCK_REALTIME alone, for this process and those that ask later: administrators set clocks. */
void sim_posix_jump_wall(struct sim_process *process, int64_t ns);
/* How many processes were killed by another one's signal. */
uint64_t sim_posix_kills(void);
/* Of them, those whose reactors all ran: control may have stood still, which is no reason. */
uint64_t sim_posix_live_kills(void);

#endif
