/* SPDX-License-Identifier: Apache-2.0 */
/*
 * target/slot.h: a legal change of a slot's state passes, an illegal one ends the process. In
 * builds without CHECK_COSTLY the changes are not checked, and the second test is skipped.
 */
#include "target/slot.h"

#include "tap.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

/* The only changes that are allowed, as in a transport's conversation with a host. */
static const bool is_legal[SLOT_STATES][SLOT_STATES] = {
	[SLOT_FREE] = {[SLOT_RECEIVING] = true},
	[SLOT_RECEIVING] = {[SLOT_FREE] = true,
			    [SLOT_WAITING_BUFFER] = true,
			    [SLOT_FETCHING] = true,
			    [SLOT_EXECUTING] = true},
	[SLOT_WAITING_BUFFER] = {[SLOT_FREE] = true,
				 [SLOT_RECEIVING] = true,
				 [SLOT_FETCHING] = true,
				 [SLOT_EXECUTING] = true},
	[SLOT_FETCHING] = {[SLOT_FREE] = true, [SLOT_EXECUTING] = true},
	[SLOT_EXECUTING] = {[SLOT_RESPONDING] = true},
	[SLOT_RESPONDING] = {[SLOT_FREE] = true, [SLOT_EXECUTING] = true},
};

/* Changes the state in a child process. Returns the child's wait status. */
static int change_in_child(enum slot_state from, enum slot_state to)
{
	const struct rlimit no_core = {0, 0};
	struct slot slot = {.state = from};
	int status = -1;
	pid_t child;

	fflush(stdout);
	child = fork();
	if (child == 0) {
		signal(SIGABRT, SIG_DFL);
		setrlimit(RLIMIT_CORE, &no_core);
		close(STDERR_FILENO);
		slot_set_state(&slot, to);
		_exit(slot.state == to ? 0 : 1);
	}
	EXPECT_EQ(child, waitpid(child, &status, 0));
	return status;
}

static void legal_changes_pass(void)
{
	for (enum slot_state from = 0; from < SLOT_STATES; from++) {
		for (enum slot_state to = 0; to < SLOT_STATES; to++) {
			struct slot slot = {.state = from};

			if (!is_legal[from][to])
				continue;
			slot_set_state(&slot, to);
			EXPECT_EQ(to, slot.state);
		}
	}
}

static void illegal_changes_abort(void)
{
	for (enum slot_state from = 0; from < SLOT_STATES; from++) {
		for (enum slot_state to = 0; to < SLOT_STATES; to++) {
			int status;

			if (is_legal[from][to])
				continue;
			status = change_in_child(from, to);
			EXPECT_THAT(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT,
				    "from state %d to %d: wait status %#x", (int)from, (int)to,
				    (unsigned)status);
		}
	}
}

int main(void)
{
	TAP_RUN(legal_changes_pass);
	if (WEFT_CHECK_COSTLY)
		TAP_RUN(illegal_changes_abort);
	else
		tap_skip("illegal_changes_abort", "this build does not check CHECK_COSTLY");
	return tap_end();
}
