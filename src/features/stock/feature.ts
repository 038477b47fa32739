import type { ServerCore } from '../../platform/feature/core.ts'
import type { Feature } from '../../platform/feature/feature.ts'
import { startRentalExpiry } from './expire-rentals.ts'

export const open = (core: ServerCore): Feature => ({ workers: [() => startRentalExpiry(core)] })
