import { z } from 'zod'

/** A position in an answer: opaque text (`positionToken`). */
export const positionField = (description: string) =>
  z.string().meta({ description: `${description} Opaque: send it back as it came.` })
