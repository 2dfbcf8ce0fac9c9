/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernel's boot ID: another one after every start of the machine, so that what was in its
 * memory is known to be gone. It is the same in all containers of a machine. Any thread.
 */
#include "base/boot_id.h"

#include <stdio.h>
#include <string.h>

void boot_id_read(struct uuid *ret_id)
{
	char text[UUID_TEXT_BYTES] = "";
	FILE *file = fopen(BOOT_ID_PATH, "re");

	memset(ret_id, 0, sizeof(*ret_id));
	if (!file)
		return;
	if (fgets(text, sizeof(text), file) && uuid_parse(text, ret_id) < 0)
		memset(ret_id, 0, sizeof(*ret_id));
	fclose(file);
}
