/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Signals as messages to the control reactor. Private to daemon/.
 */
#ifndef WEFT_DAEMON_SIGNALS_H
#define WEFT_DAEMON_SIGNALS_H

#include "reactor/reactor.h"

#include <pthread.h>

struct signals {
	struct reactor *control;
	/* Called on the control reactor. */
	void (*on_stop)(void *arg);
	void (*on_reload)(void *arg);
	void (*on_report)(void *arg);
	void *arg;
	/* Private. */
	pthread_t thread;
	unsigned stop_count;
	struct reactor_msg stop_msg;
	struct reactor_msg reload_msg;
	atomic_bool reload_posted;
	struct reactor_msg report_msg;
	atomic_bool report_posted;
	atomic_bool quits; /* signals_stop was called */
};

/* Blocks the signals, so that only the signal thread takes them. Call before any thread is started,
 * because threads inherit the mask. */
void signals_block(void);
/* The caller has filled in control, the callbacks and arg. 0 or -errno. */
int signals_start(struct signals *signals);
void signals_stop(struct signals *signals);

#endif
