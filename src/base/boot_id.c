/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernel's boot ID. It changes with every start of the machine, so a new ID proves that what
 * was in the machine's memory is lost. All containers of a machine have the same ID. Any thread.
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
