/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A folder of the test program below /tmp, created at the start of main and removed with its
 * contents at the end.
 */
#ifndef WEFT_TESTS_TEMP_FOLDER_H
#define WEFT_TESTS_TEMP_FOLDER_H

#include "base/log.h"
#include "tap.h"

#include <stdlib.h>

static char root[] = "/tmp/weft-test-XXXXXX";

/* True when the folder was created. Only errors are logged from here on. */
__attribute__((unused)) static bool root_make(void)
{
	log_set_level(LOG_LEVEL_ERROR);
	return mkdtemp(root) != NULL;
}

/* Call after the last case. Returns the exit status. */
__attribute__((unused)) static int root_end(void)
{
	int res = tap_end();
	char command[128];

	snprintf(command, sizeof(command), "rm -r %s", root);
	return system(command) == 0 ? res : 1;
}

#endif
