import { z } from 'zod'
import { type Route, route } from '../../platform/http/route.ts'
import { type Assets, assetFolder } from '../frame/assets.ts'
import { framed } from '../frame/frame.ts'
import { notFound, pageHeaders, surroundings } from './answer.ts'

/** `GET /console/assets/{file}`: what pages load, kept by browsers for a year under a name that changes with it. */
export const assetRoute = (deps: { readonly assets: Assets; readonly name: string }): Route =>
  route({
    method: 'GET',
    path: `${assetFolder}/{file}`,
    operationId: 'getConsoleAsset',
    summary: 'A style or a script of the console',
    description: 'Its name changes with what is in it.',
    tag: 'Console',
    access: 'public',
    writes: false,
    hidden: true,
    params: z.object({ file: z.string().max(100) }),
    responses: {
      200: { description: 'The file.', text: { mediaType: 'text/css', example: '' } },
      404: { description: 'There is none of this name.', text: { mediaType: 'text/html', example: '' } },
    },
    errors: [],
    handler: async ({ params }) => {
      const asset = deps.assets.find(params.file)
      return asset === null
        ? { status: 404, text: framed(notFound, surroundings(deps)), headers: pageHeaders }
        : {
            status: 200,
            text: asset.text,
            mediaType: asset.mediaType,
            headers: {
              'cache-control': 'public, max-age=31536000, immutable',
              'cross-origin-resource-policy': 'same-origin',
            },
          }
    },
  })
