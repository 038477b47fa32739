export { metaOf } from '../../domain/catalog/catalog.ts'
export { createCatalogService, createLiveCatalog, type LiveCatalog } from './import-catalog.ts'
export { tiersTable } from './price-pages.ts'
export {
  createOrderable,
  createRequireOrderable,
  type Orderable,
  type Quotes,
  type RequireOrderable,
} from './quotes.ts'
export { productLinks, productName, productView, quoteView, requireAccepted } from './views.ts'
