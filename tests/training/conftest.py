from tests.pictures import no_pictures as no_pictures
