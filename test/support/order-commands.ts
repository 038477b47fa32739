import { ordersCommands } from '../../src/features/orders/commands.ts'
import { createMeter } from '../../src/features/plans/meter-traffic.ts'

/** The commands of orders, as the program registers them. */
export const orderCommands = ordersCommands((context) => createMeter(context).settle)
