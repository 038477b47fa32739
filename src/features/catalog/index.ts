export { metaOf } from '../../domain/catalog/catalog.ts'
export { createCatalogService, createLiveCatalog, type LiveCatalog } from './import-catalog.ts'
export {
  createOrderable,
  createRequireOrderable,
  type Orderable,
  type Quotes,
  type RequireOrderable,
} from './quotes.ts'
export { productView, quoteView, requireAccepted } from './views.ts'
